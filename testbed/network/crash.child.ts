/** Run by crash.test.ts: makes a network, a process in it and removes it, killing itself with SIGKILL at the n-th step of that. */

import { spawn } from 'node:child_process';
import { netnsHosts } from '../hosts/netns.js';
import type { Hosts } from '../hosts/hosts.js';
import { openJournal } from '../journal/journal.js';
import { dumbbell } from '../testing/plans.js';
import { Network } from './network.js';


const [tag = '', folder = '', killAt = '0'] = process.argv.slice(2);
let step = 0;
const tick = (): void => { if (++step === Number(killAt)) process.kill(process.pid, 'SIGKILL'); };

const journal = openJournal(tag, folder);
const plain = netnsHosts(tag, journal);
/** Every call of set-up passes here: before and inside each namespace, before each use of its descriptor. */
const hosts: Hosts = {
  kind: 'netns',
  create: (nodes, inside) => { tick(); plain.create(nodes, (node) => { tick(); inside(node); tick(); }); tick(); },
  inside: (node, call) => { tick(); return plain.inside(node, () => { tick(); return call(); }); },
  namespaceFd: (node) => { tick(); return plain.namespaceFd(node); },
  namespacePath: (node) => plain.namespacePath(node),
  command: (node, words) => plain.command(node, words),
  remove: () => { tick(); plain.remove(); tick(); },
};
const network = Network.create(dumbbell({ pairs: 2 }), { tag, journal, hosts });
tick();
const child = network.inNode('S[0]', () => spawn('sleep', ['600'], { stdio: 'ignore', detached: true }));
tick();
const id = journal.addProcess(child.pid!);
tick();
network.verify();
tick();
child.kill('SIGKILL');
await new Promise((done) => child.on('exit', done));
journal.removed(id);
tick();
network.remove();
tick();
journal.close();
tick();
console.log(`finished after ${step} steps`);
