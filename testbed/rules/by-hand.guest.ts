/**
 * In a guest: makes a plan's network as the agent does, then by the script `testbed plan --format sh` printed, and says what stands
 * each time. Argument: folder with plan.json and plan.sh. Prints a ByHand as JSON; with `look`, only what stands now.
 */

import { execFileSync, spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { Network } from '../network/network.js';
import { layoutOf } from '../network/steps.js';
import type { Plan } from '../plan/plan.js';

const folder = process.argv[2]!;
const plan = JSON.parse(fs.readFileSync(path.join(folder, 'plan.json'), 'utf8')) as Plan;
fs.mkdirSync('/run/netns', { recursive: true });

/** Without what traffic changes (flows of a fair queue, counters) and the group by which the agent removes its links at once. */
const chosen = (text: string): string[] => text.split('\n')
  .map((line) => line.trim().replace(/link-netns \S+|link-netnsid \d+|netns \S+|group \S+|direct_packets_stat \d+/g, '').replace(/\s+/g, ' '))
  .filter((line) => line !== '' && !/^class (cake|fq_codel|sfq) 10:/.test(line));
/** One process answers many questions: processes are what costs in a guest. */
const batch = (program: 'ip' | 'tc', netns: string, questions: readonly string[]): string[] =>
  chosen(execFileSync(program, ['-n', netns, '-batch', '-'], { encoding: 'utf8', input: questions.map((question) => `${question}\n`).join('') }));

/** What stands in each namespace. */
function standing(name: (netns: string) => string, netns: readonly string[]): Record<string, string[]> {
  const out: Record<string, string[]> = {};
  for (const each of netns) {
    const links = batch('ip', name(each), ['link show']);
    const devices = links.flatMap((line) => /^\d+: ([^@:]+)@/.exec(line)?.[1] ?? []);
    out[`${each}: links`] = links;
    out[`${each}: addresses and routes`] = batch('ip', name(each), ['addr show', 'route show table main']);
    out[`${each}: IPv6 routes`] = chosen(execFileSync('ip', ['-n', name(each), '-6', 'route', 'show', 'table', 'main'], { encoding: 'utf8' }));
    out[`${each}: queues`] = batch('tc', name(each), ['qdisc show', ...devices.flatMap((device) => [`class show dev ${device}`, `filter show dev ${device} parent ffff:`, `filter show dev ${device} parent 1:`])]);
  }
  return out;
}

const { wireNetns } = layoutOf(plan);
const names = [...plan.nodes.map(({ netns }) => netns), ...(wireNetns === null ? [] : [wireNetns])];
if (process.argv[3] === 'look') {
  process.stdout.write(JSON.stringify(standing((netns) => netns, names)));
} else {
  const tag = 'abcd1234';
  const network = Network.create(plan, { tag, journal: null });
  const agent = standing((netns) => `${tag}-${netns}`, names);
  network.remove();
  for (const name of fs.readdirSync('/run/netns')) throw new Error(`${name} is left`);
  // The script removes what it made when it ends, so the look is taken as its last command.
  fs.writeFileSync('/tmp/plan.sh', `${fs.readFileSync(path.join(folder, 'plan.sh'), 'utf8')}\n'${process.execPath}' '${process.argv[1]}' '${folder}' look >/tmp/standing.json\n`);
  const ran = spawnSync('sh', ['/tmp/plan.sh'], { encoding: 'utf8', timeout: 600_000 });
  const script: unknown = ran.status === 0 ? JSON.parse(fs.readFileSync('/tmp/standing.json', 'utf8')) : null;
  process.stdout.write(`${JSON.stringify({ agent, script, code: ran.status, stdout: ran.stdout, stderr: ran.stderr, left: fs.readdirSync('/run/netns') })}\n`);
}
