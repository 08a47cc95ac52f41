/** Runs the agent on a small dumbbell inside a guest, for tests of traffic: options as JSON in, the files of raw/ as JSON out. */

import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import { runAgent } from '../agent/run.js';
import { traffic } from '../traffic/registry.js';
import { dumbbellNetwork, dumbbellPlan } from './dumbbell-network.js';
import type { DumbbellOptions } from './dumbbell-network.js';

const raw = '/run/raw';
fs.mkdirSync(raw);
const room = process.argv[3]; // of the disk that takes the records, e.g. `96k`
if (room !== undefined) execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${room}`, 'tmpfs', raw]);
const plan = dumbbellPlan(JSON.parse(process.argv[2]!) as DumbbellOptions);
fs.writeFileSync(`${raw}/plan.json`, JSON.stringify(plan));
let statistics = '';
let wire = '';
const code = await runAgent({ rawDir: raw, clock: 'virtual', tag: 'test', mode: 'guest' }, {
  network: () => {
    const network = dumbbellNetwork(plan);
    return { ...network, verifyEnd: () => { statistics = network.tc('r', '-s qdisc show dev rb'); wire = network.tc('b', '-s qdisc show dev eb'); return []; } };
  },
  traffic,
  collectors: [],
});
const files = Object.fromEntries(fs.readdirSync(raw).filter((name) => name !== 'plan.json').map((name) => [name, fs.readFileSync(`${raw}/${name}`, 'utf8')]));
console.log(JSON.stringify({ code, statistics, wire, files }));
process.exit(0);
