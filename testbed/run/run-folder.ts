/** Names and makes the folders of runs: `<name>-<time>-<id>` for one run or a set, `<varied>-seed<N>` inside a set. */

import * as crypto from 'node:crypto';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { UserError } from '../errors.js';
import type { Plan } from '../plan/plan.js';

const twoDigits = (value: number): string => String(value).padStart(2, '0');

/** Makes the top folder of a run or set. @throws UserError when it cannot be made */
export function makeTopFolder(outDir: string, name: string, now: Date): string {
  const time = `${now.getFullYear()}${twoDigits(now.getMonth() + 1)}${twoDigits(now.getDate())}-${twoDigits(now.getHours())}${twoDigits(now.getMinutes())}${twoDigits(now.getSeconds())}`;
  const folder = path.resolve(outDir, `${name}-${time}-${crypto.randomBytes(3).toString('hex')}`);
  try {
    makeFolders(folder);
    fs.accessSync(folder, fs.constants.W_OK);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? String(error);
    throw new UserError(`${outDir}: no run folder can be made there (${code}); name a folder you may write to with --out DIR`);
  }
  return folder;
}

/** As mkdirSync with `recursive`, which never returns where the file system answers ENOENT in a folder that is there (/proc). */
export function makeFolders(folder: string): void {
  if (fs.existsSync(folder)) return;
  makeFolders(path.dirname(folder));
  try {
    fs.mkdirSync(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error; // another run was quicker
  }
}

/** A file name that says what was varied: `queue=fq_codel,BL1.rate=5mbit` made safe and short, unique by its hash where cut. */
export function runFolderName(plan: Plan): string {
  const said = Object.entries(plan.varied).map(([key, value]) => `${key.split('.').at(-1)}-${value}`).join('-').replace(/[^A-Za-z0-9_.-]+/g, '-').replace(/-+/g, '-').replace(/^-|-$/g, '');
  const hash = crypto.createHash('sha256').update(JSON.stringify(plan.varied)).digest('hex').slice(0, 6);
  const short = said.length > 60 ? `${said.slice(0, 53)}-${hash}` : said;
  return `${short ? `${short}-` : ''}seed${plan.seed}`;
}
