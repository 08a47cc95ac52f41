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

/** What is in a namespace, without what traffic changes (flows of a fair queue, counters) and the group by which the agent removes its links at once. */
const questions: readonly (readonly string[])[] = [
  ['ip', '-n', 'NS', '-o', 'addr', 'show'], ['ip', '-n', 'NS', 'route', 'show', 'table', 'main'], ['ip', '-n', 'NS', '-6', 'route', 'show', 'table', 'main'],
  ['ip', '-n', 'NS', '-o', 'link', 'show'], ['tc', '-n', 'NS', 'qdisc', 'show'],
];
const device = (line: string): string => /^\d+: ([^@:]+)/.exec(line)?.[1] ?? '';
function standing(name: (netns: string) => string, netns: readonly string[]): Record<string, string[]> {
  const ask = (words: readonly string[]): string[] => execFileSync(words[0]!, words.slice(1), { encoding: 'utf8' }).split('\n').map((line) => line.trim().replace(/link-netns \S+|link-netnsid \d+|netns \S+|group \S+|direct_packets_stat \d+/g, '').replace(/\s+/g, ' ')).filter((line) => line !== '').sort();
  const out: Record<string, string[]> = {};
  for (const each of netns) {
    for (const question of questions) out[`${each}: ${question.filter((word) => word !== '-n' && word !== 'NS').join(' ')}`] = ask(question.map((word) => (word === 'NS' ? name(each) : word)));
    for (const dev of ask(['ip', '-n', name(each), '-o', 'link', 'show']).map(device).filter((dev) => dev !== 'lo')) {
      out[`${each}: tc class ${dev}`] = ask(['tc', '-n', name(each), 'class', 'show', 'dev', dev]).filter((line) => !/^class (cake|fq_codel|sfq) 10:/.test(line));
      for (const parent of ['ffff:', '1:']) out[`${each}: tc filter ${dev} ${parent}`] = ask(['tc', '-n', name(each), 'filter', 'show', 'dev', dev, 'parent', parent]);
      out[`${each}: offloads ${dev}`] = ask(['ip', 'netns', 'exec', name(each), 'ethtool', '-k', dev]).filter((line) => /segmentation-offload|generic-receive|large-receive/.test(line));
    }
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
