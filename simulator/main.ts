/** Simulates one plan: `node dist/simulator/main.js PLAN.json RAW-FOLDER [--no-records]`; prints the summary as JSON. */

import * as fs from 'node:fs';
import { simulate } from './simulate.js';
import type { Plan } from '../testbed/plan/plan.js';

const [planFile, rawDir, ...flags] = process.argv.slice(2);
if (planFile === undefined || rawDir === undefined) {
  process.stderr.write('usage: main.js PLAN.json RAW-FOLDER [--no-records]\n');
  process.exitCode = 2;
} else {
  fs.mkdirSync(rawDir, { recursive: true });
  const plan = JSON.parse(fs.readFileSync(planFile, 'utf8')) as Plan;
  process.stdout.write(`${JSON.stringify(simulate(plan, rawDir, { records: !flags.includes('--no-records') }), null, 1)}\n`);
}
