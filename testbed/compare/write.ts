/** Writes a comparison's folder: comparison.json and comparison.html. */

import * as fs from 'node:fs';
import * as path from 'node:path';
import { UserError } from '../errors.js';
import { writeJsonAtomically } from '../records/run-json.js';
import { makeTopFolder } from '../run/run-folder.js';
import { comparisonName } from './comparison.js';
import type { CompareResult } from './comparison.js';
import { readOverlay } from './overlay.js';
import type { Overlay } from './overlay.js';
import { comparisonPage, mostDrawn } from './page.js';

export const comparisonPageName = 'comparison.html';

/**
 * @param resultsDir where a new folder `compare-<time>-<id>` is made when `outDir` is not given
 * @param curves false: no plots over time, no cumulative distributions
 * @throws UserError when the folder cannot be made or written to
 */
export async function writeComparison({ comparison, cells }: CompareResult, resultsDir: string, outDir: string | undefined, curves: boolean): Promise<{ readonly json: string; readonly page: string }> {
  const dir = outDir === undefined ? makeTopFolder(resultsDir, 'compare', new Date()) : ownFolder(outDir);
  const overlays: (Overlay | undefined)[] = [];
  if (curves) for (const cell of cells.slice(0, mostDrawn)) overlays.push(await readOverlay(cell));
  const [json, page] = [path.join(dir, comparisonName), path.join(dir, comparisonPageName)];
  try {
    writeJsonAtomically(json, comparison);
    fs.writeFileSync(`${page}.tmp`, comparisonPage(comparison, overlays));
    fs.renameSync(`${page}.tmp`, page);
  } catch (error) {
    throw new UserError(`${dir}: cannot write the comparison (${error instanceof Error ? error.message : String(error)}); name another folder with --out DIR`);
  }
  return { json, page };
}

function ownFolder(dir: string): string {
  if (fs.existsSync(path.join(dir, 'run.json')) || fs.existsSync(path.join(dir, 'raw'))) throw new UserError(`${dir}: this is a run's folder; name another for the comparison with --out DIR`);
  try {
    fs.mkdirSync(dir, { recursive: true });
  } catch (error) {
    throw new UserError(`${dir}: the folder cannot be made (${error instanceof Error ? error.message : String(error)}); name another with --out DIR`);
  }
  return dir;
}
