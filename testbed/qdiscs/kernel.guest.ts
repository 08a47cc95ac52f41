/**
 * Runs in a guest, for kernel.test.ts: sets each qdisc by our netlink and by tc with the same words, and compares what the kernel then
 * says; drives traffic through each and compares `tc -s` with decodeState. Prints { differences, compared, states } as JSON.
 */

import { execFileSync } from 'node:child_process';
import { close, setsockoptInt, socket, trySendto } from '../linux/libc.js';
import { NetlinkSocket } from '../linux/netlink.js';
import { addressBytes, deleteQdisc, handleOf, handleWord, listQdiscs, parseTc, setQdisc, linkUp, TC_H_ROOT, type TcState } from '../linux/rtnetlink.js';
import { Network } from '../network/network.js';
import { parameterSets } from '../testing/queue-parameters.js';
import { dumbbell, queue } from '../testing/plans.js';
import type { Qdisc, QdiscContext } from './qdisc.js';
import { qdiscs } from './registry.js';

const [mode = 'set', onlyKind] = process.argv.slice(2);
const context: QdiscContext = { mtuBytes: 1500, rateBps: 20e6 };
const handle = handleOf(1);
const sleep = (ms: number): void => { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms); };
const chosen = [...qdiscs.values()].filter((qdisc) => onlyKind === undefined || qdisc.kind === onlyKind);

interface Difference { readonly kind: string; readonly words: string; readonly ours: string; readonly tc: string }

/** Every qdisc set in two ways. */
function compareSetting(): { compared: number; differences: Difference[] } {
  const route = NetlinkSocket.open();
  execFileSync('ip', ['link', 'add', 't0', 'index', '500', 'type', 'veth', 'peer', 'name', 't1']);
  route.run([linkUp(500)]);
  const standing = (): TcState | undefined => route.ask(listQdiscs()).map(parseTc).find((one) => one.ifindex === 500 && one.handle === handle);
  const remove = (): void => { route.run([deleteQdisc(500, TC_H_ROOT, handle)]); };
  const differences: Difference[] = [];
  let compared = 0;
  for (const qdisc of chosen) {
    if (qdisc.kind === 'dualpi2') continue;
    for (const { nat: _nat, ...params } of parameterSets(qdisc, 8, 2)) { // our kernels have no connection tracking, which CAKE's nat needs
      const words = qdisc.tcWords(params, context);
      const set = (how: () => void): string => {
        try {
          how();
        } catch (error) {
          return `refused: ${(error as Error).message.split('\n').slice(0, 3).join(' ')}`;
        }
        const found = standing();
        const said = execFileSync('tc', ['-d', 'qdisc', 'show', 'dev', 't0', 'root'], { encoding: 'utf8' }).trim();
        remove();
        return `${found?.options?.toString('hex') ?? ''} ${said}`;
      };
      const ours = set(() => route.run([setQdisc(500, TC_H_ROOT, handle, { kind: qdisc.kind, options: qdisc.encode(params, context), nested: qdisc.nested === true })]));
      const theirs = set(() => execFileSync('tc', ['qdisc', 'add', 'dev', 't0', 'root', 'handle', handleWord(handle), qdisc.kind, ...words], { stdio: ['ignore', 'pipe', 'pipe'] }));
      compared++;
      if (ours !== theirs || ours.startsWith('refused')) differences.push({ kind: qdisc.kind, words: words.join(' '), ours, tc: theirs });
    }
  }
  return { compared, differences };
}

/** UDP with ECT(0) and without, in bursts, at about twice the rate of a 10 Mbit/s bottleneck: 1.5 s of it. */
function drive(network: Network, to: string): void {
  const sockets = network.inNode('S[0]', () => Array.from({ length: 4 }, () => socket(2, 2, 0)));
  sockets.forEach((fd, index) => setsockoptInt(fd, 0, 1 /* IP_TOS */, index % 2 === 0 ? 2 : 0));
  const address = Buffer.alloc(16);
  address.writeUInt16LE(2, 0);
  addressBytes(to).copy(address, 4);
  const payload = Buffer.alloc(1000);
  for (let round = 0; round < 75; round++) {
    for (let packet = 0; packet < 50; packet++) {
      address.writeUInt16BE(5000 + (packet % 5), 2);
      trySendto(sockets[packet % 4]!, payload, payload.length, 0, address, address.length);
    }
    sleep(20);
  }
  for (const fd of sockets) close(fd);
}

interface Driven { readonly kind: string; readonly names: readonly string[]; readonly state: readonly (number | null)[]; readonly marks: number | null; readonly drops: number; readonly tc: unknown; readonly findings: readonly string[] }
const driving: Readonly<Record<string, Record<string, unknown>>> = {
  red: { min: '10p', max: '30p', probability: 0.1, ecn: true }, choke: { limit: 200, min: 10, max: 50, ecn: true }, sfq: { limit: 300, depth: 50, redflowlimit: '50kB', min: '2kB', max: '8kB', ecn: true, probability: 0.5 },
  codel: { ecn: true, ce_threshold: '20ms' }, fq_codel: { limit: 200 }, pie: { ecn: true }, fq_pie: { ecn: true, limit: 200 }, sfb: { limit: 100 }, cake: { bandwidth: '8mbit', besteffort: true, memlimit: '200kB' },
  hhf: { limit: 50 }, fq: { limit: 50, ce_threshold: '5ms' }, pfifo: { limit: 50 }, bfifo: { limit: '50kB' }, drr: { flows: 4, limit: 10 },
};
function driveAll(): Driven[] {
  return chosen.filter(({ kind }) => kind !== 'dualpi2' || onlyKind === kind).map((qdisc: Qdisc): Driven => {
    const params = qdisc.schema.parse(driving[qdisc.kind] ?? {}) as Record<string, number>;
    const network = Network.create(dumbbell({ rateBps: 10e6, accessBps: null, queue: queue(qdisc.kind, params) }), { tag: 'driven00', journal: null });
    const early = network.verify();
    drive(network, '10.2.0.1');
    const { options, xstats, drops } = network.readStats('BL1');
    const source = qdisc.statsIn === 'options' ? options : xstats;
    const finite = (n: number): number | null => (Number.isNaN(n) ? null : n);
    const said = network.inNode('R1', () => execFileSync('tc', ['-s', '-j', 'qdisc', 'show', 'dev', 'right'], { encoding: 'utf8' }));
    let tc: unknown = said;
    try {
      tc = (JSON.parse(said) as { handle: string }[]).find((one) => one.handle === '10:');
    } catch { /* tc 6.1 prints some qdiscs as text into its JSON */ }
    sleep(500);
    const findings = [...early, ...network.verifyEnd()].map((finding) => `${finding.rule}: ${finding.message}`);
    network.remove();
    return { kind: qdisc.kind, names: qdisc.state, state: qdisc.decodeState(source).map(finite), marks: finite(qdisc.decodeMarks(source)), drops, tc, findings };
  });
}

console.log(JSON.stringify(mode === 'set' ? compareSetting() : driveAll()));
