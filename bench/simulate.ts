/**
 * Run by simulator.ts in a process of its own: one simulation three times in it. Prints a line of JSON: packets through the
 * bottleneck and wall seconds of the first (cold), the second (warm) and one that records every packet; peak memory, bytes.
 *
 *     node dist/bench/simulate.js 'topology.links.BL.rate=100mbit' …
 */

import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { simulate } from '../simulator/simulate.js';
import { expandRuns } from '../testbed/plan/compile.js';
import { load } from '../testbed/scenario/load.js';
import { projectRoot } from './measure.js';

export interface SimulatorFigures { readonly packets: number; readonly coldS: number; readonly warmS: number; readonly recordedS: number; readonly peakBytes: number }

const scenario = load(path.join(projectRoot, 'bench', 'dumbbell.yaml'), { set: process.argv.slice(2) });
const plan = expandRuns(scenario, { clock: 'virtual', seeds: [1] })[0]!.plan;

function once(records: boolean): { readonly wallS: number; readonly packets: number } {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'testbed-bench-sim-'));
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
const warm = once(false);
const recorded = once(true);
process.stdout.write(`${JSON.stringify({ packets: warm.packets, coldS: cold.wallS, warmS: warm.wallS, recordedS: recorded.wallS, peakBytes } satisfies SimulatorFigures)}\n`);
