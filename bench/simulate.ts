/**
 * Run by simulator.ts in a process of its own: one simulation several times in it. Prints a line of JSON: packets through the
 * bottleneck; wall seconds of the first (cold), and warm without and with a record of every packet, each the median of the
 * simulations after those in which V8 still compiled; peak memory of the first, bytes.
 *
 *     node dist/bench/simulate.js 'topology.links.BL.rate=100mbit' …
 */

import * as fs from 'node:fs';
import * as path from 'node:path';
import { simulate } from '../simulator/simulate.js';
import { expandRuns } from '../testbed/plan/compile.js';
import { load } from '../testbed/scenario/load.js';
import { median, projectRoot } from './measure.js';
import { temporaryFolder } from '../testbed/testing/temporary-folder.js';

export interface SimulatorFigures { readonly packets: number; readonly coldS: number; readonly warmS: number; readonly recordedS: number; readonly peakBytes: number }

const scenario = load(path.join(projectRoot, 'bench', 'dumbbell.yaml'), { set: process.argv.slice(2) });
const plan = expandRuns(scenario, { clock: 'virtual', seeds: [1] })[0]!.plan;

function once(records: boolean): { readonly wallS: number; readonly packets: number } {
  const folder = temporaryFolder('testbed-bench-sim-');
  try {
    const began = performance.now();
    const { links } = simulate(plan, folder, { records });
    return { wallS: (performance.now() - began) / 1000, packets: links.find(({ name }) => name === 'BL')!.sentPackets };
  } finally {
    fs.rmSync(folder, { recursive: true, force: true });
  }
}

const cold = once(false);
const peakBytes = process.resourceUsage().maxRSS * 1024;
const warmS = warm(false);
const recordedS = warm(true);
process.stdout.write(`${JSON.stringify({ packets: cold.packets, coldS: cold.wallS, warmS, recordedS, peakBytes } satisfies SimulatorFigures)}\n`);

/** Until V8 has compiled what is hot: five simulations or three seconds of them; then the median of five, or of one that is long. */
function warm(records: boolean): number {
  let spentS = 0;
  for (let i = 0; i < 5 && spentS < 3; i++) spentS += once(records).wallS;
  const walls = [once(records).wallS];
  while (walls.length < 5 && walls[0]! < 1) walls.push(once(records).wallS);
  return median(walls);
}
