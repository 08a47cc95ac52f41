/** Runs in a guest, for network.test.ts: makes networks, measures them, breaks them. Prints one JSON. */

import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { clockNs, CLOCK_MONOTONIC, close, setsockoptInt, socket, trySendto } from '../linux/libc.js';
import { addressBytes } from '../linux/rtnetlink.js';
import type { Plan } from '../plan/plan.js';
import { dumbbell, queue, wire, type DumbbellOptions } from '../testing/plans.js';
import { Network } from './network.js';
import { planToShell } from './shell.js';

const sleep = (ms: number): void => { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms); };
const run = (command: string, ...words: string[]): string => execFileSync(command, words, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
function inside<T>(plan: Plan, call: (network: Network) => T): T {
  const network = Network.create(plan, { tag: 'guest000', journal: null });
  try {
    return call(network);
  } finally {
    network.remove();
  }
}
/** Mean RTT, ms, of three echoes; null when one was lost. */
function ping(network: Network, from: string, to: string): number | null {
  try {
    const said = network.inNode(from, () => run('ping', '-q', '-c', '3', '-i', '0.2', '-W', '2', to));
    return / 0% packet loss/.test(said) ? Number(/= [\d.]+\/([\d.]+)\//.exec(said)?.[1]) : null;
  } catch {
    return null;
  }
}
/** UDP at about `times` × 10 Mbit/s in steps of 10 ms. */
function flood(network: Network, to: string, ms: number, bytes = 1000, perStep = 25): void {
  const fd = network.inNode('S[0]', () => socket(2, 2, 0));
  setsockoptInt(fd, 1, 7 /* SO_SNDBUF */, 1 << 20);
  const address = Buffer.alloc(16);
  address.writeUInt16LE(2, 0);
  address.writeUInt16BE(5000, 2);
  addressBytes(to).copy(address, 4);
  const payload = Buffer.alloc(bytes);
  for (let at = 0; at < ms; at += 10) {
    for (let packet = 0; packet < perStep; packet++) trySendto(fd, payload, bytes, 0, address, 16);
    sleep(10);
  }
  close(fd);
}

function delays(): unknown {
  const perDestination = dumbbell({ pairs: 2, six: true, reverse: { wire: [wire(10e6, { to: ['10.1.0.1', 'fd00:1:0::1'] }), wire(30e6, { to: ['10.1.1.1'] }), wire(50e6)] } });
  const many = Array.from({ length: 20 }, (_, index) => wire((index + 1) * 1e6, { to: [index === 18 ? '10.1.0.1' : `10.9.9.${index}`] }));
  return {
    plain: inside(dumbbell(), (network) => ping(network, 'S[0]', '10.2.0.1')),
    six: inside(dumbbell({ six: true, delayNs: 25e6 }), (network) => [ping(network, 'S[0]', '10.2.0.1'), ping(network, 'S[0]', 'fd00:2:0::1')]),
    fine: inside(dumbbell({ delayNs: 12_345_678 }), (network) => ping(network, 'S[0]', '10.2.0.1')),
    perDestination: inside(perDestination, (network) => [ping(network, 'S[0]', '10.2.0.1'), ping(network, 'S[0]', 'fd00:2:0::1'), ping(network, 'S[1]', '10.2.0.1'), ping(network, 'S[1]', 'fd00:2:0::1')]),
    many: inside(dumbbell({ reverse: { wire: many } }), (network) => ping(network, 'S[0]', '10.2.0.1')),
    lost: inside(dumbbell({ reverse: { wire: [wire(0, { loss: 1 })] } }), (network) => [ping(network, 'S[0]', '10.2.0.1'), network.netemDrops().map(({ drops }) => drops)]),
    silent: inside(dumbbell({ six: true, delayNs: 5e6 }), (network) => { sleep(5000); return [network.readStats('BL1').sentPackets, network.readStats('BL1.reverse').sentPackets]; }),
  };
}

/** Rate the queue is emptied at, counted at the shaper, bits/s; and what a packet counts for. */
function rate(options: DumbbellOptions, bytes = 1000): unknown {
  return inside(dumbbell({ rateBps: 10e6, accessBps: null, ...options }), (network) => {
    const early = network.verify();
    flood(network, '10.2.0.1', 500, bytes);
    const [before, t0] = [network.readStats('BL1'), clockNs(CLOCK_MONOTONIC)];
    flood(network, '10.2.0.1', 1000, bytes);
    const [after, t1] = [network.readStats('BL1'), clockNs(CLOCK_MONOTONIC)];
    sleep(2000);
    return {
      bps: ((after.sentBytes - before.sentBytes) * 8e9) / (t1 - t0), packetBytes: (after.sentBytes - before.sentBytes) / (after.sentPackets - before.sentPackets),
      findings: [...early, ...network.verifyEnd()].map(({ rule }) => rule),
    };
  });
}
const rates = (): unknown => ({
  htb: rate({}), tbf: rate({ forward: { shaper: 'tbf' } }), overhead: rate({ forward: { overheadBytes: 38 } }), tbfOverhead: rate({ forward: { shaper: 'tbf', overheadBytes: 38 } }), less: rate({ forward: { overheadBytes: 0 } }),
  slow: rate({ rateBps: 64e3 }), jumbo: rate({ mtuBytes: 9000 }, 8000), raw: rate({ queue: { kind: 'raw', in: 'kernel', params: {}, tc: ['fq_codel', 'limit', '100'] } }),
});

function events(): unknown {
  const plan: Plan = {
    ...dumbbell({ rateBps: 10e6, accessBps: null, queue: queue('codel', { limit: 500 }), forward: { overheadBytes: 38 } }),
    events: [{ atNs: 1e9, direction: 'BL1.reverse', set: { wire: wire(40e6) } }],
  };
  return inside(plan, (network) => {
    const rtts = [ping(network, 'S[0]', '10.2.0.1')];
    const findings = network.applyEvent(plan.events[0]!).map(({ rule }) => rule);
    rtts.push(ping(network, 'S[0]', '10.2.0.1'));
    findings.push(...network.applyEvent({ atNs: 2e9, direction: 'BL1', set: { rateBps: 5e6, queue: queue('codel', { limit: 100 }) } }).map(({ rule }) => rule));
    findings.push(...network.verify().map(({ rule }) => rule));
    const limit = network.readStats('BL1').options?.readUInt32LE(12); // second attribute of sch_codel's dump: TCA_CODEL_LIMIT
    flood(network, '10.2.0.1', 500);
    const [before, t0] = [network.readStats('BL1'), clockNs(CLOCK_MONOTONIC)];
    flood(network, '10.2.0.1', 1000);
    const [after, t1] = [network.readStats('BL1'), clockNs(CLOCK_MONOTONIC)];
    const refused = network.applyEvent({ atNs: 3e9, direction: 'BL1', set: { queue: queue('pie') } });
    return { rtts, findings, limit, bps: ((after.sentBytes - before.sentBytes) * 8e9) / (t1 - t0), refused: refused.map(({ message }) => message) };
  });
}

/** Each rule broken once: what verify or verifyEnd then says. */
function broken(): unknown {
  const rules = (network: Network, at: 'verify' | 'verifyEnd'): string[] => [...new Set(network[at]().map(({ rule }) => rule))];
  const small: DumbbellOptions = { rateBps: 10e6, accessBps: null, queue: queue('codel') };
  return {
    offloads: inside(dumbbell(small), (network) => { network.inNode('S[0]', () => run('ethtool', '-K', 'eth0', 'gso', 'on')); return rules(network, 'verify'); }),
    rate: inside(dumbbell(small), (network) => { network.inNode('R1', () => run('tc', 'class', 'change', 'dev', 'right', 'parent', '1:', 'classid', '1:1', 'htb', 'rate', '9mbit', 'burst', '1514', 'cburst', '1514', 'quantum', '1514')); return rules(network, 'verify'); }),
    burst: inside(dumbbell(small), (network) => { network.inNode('R1', () => run('tc', 'class', 'change', 'dev', 'right', 'parent', '1:', 'classid', '1:1', 'htb', 'rate', '10mbit', 'burst', '15140', 'cburst', '15140', 'quantum', '1514')); return rules(network, 'verify'); }),
    r2q: inside(dumbbell(small), (network) => { network.inNode('R1', () => run('tc', 'class', 'change', 'dev', 'right', 'parent', '1:', 'classid', '1:1', 'htb', 'rate', '10mbit', 'burst', '1514', 'cburst', '1514', 'quantum', '60000')); return rules(network, 'verify'); }),
    queue: inside(dumbbell(small), (network) => { network.inNode('R1', () => run('tc', 'qdisc', 'replace', 'dev', 'right', 'parent', '1:1', 'handle', '20:', 'pfifo')); return rules(network, 'verify'); }),
    sysctl: inside(dumbbell(small), (network) => { network.inNode('S[0]', () => writeFileSync('/proc/sys/net/ipv4/tcp_no_metrics_save', '0')); return rules(network, 'verify'); }),
    netem: inside(dumbbell({ ...small, forward: { wire: [wire(200e6, { limitPackets: 20 })] } }), (network) => { network.verify(); flood(network, '10.2.0.1', 500); sleep(1000); return rules(network, 'verifyEnd'); }),
    superpacket: inside(dumbbell(small), (network) => {
      network.verify();
      for (const [node, devices] of [['S[0]', ['eth0']], ['R1', ['s0', 'right']], ['R2', ['left', 'd0']], ['D[0]', ['eth0']]] as const) for (const device of devices) network.inNode(node, () => run('ethtool', '-K', device, 'tso', 'on', 'gso', 'on', 'gro', 'on'));
      network.inNode('D[0]', () => run('sh', '-c', 'iperf3 -s -1 -D'));
      sleep(200);
      network.inNode('S[0]', () => run('iperf3', '-c', '10.2.0.1', '-n', '2M'));
      return rules(network, 'verifyEnd');
    }),
    elsewhere: inside(dumbbell(small), (network) => { network.verify(); network.inNode('R2', () => run('ip', 'link', 'set', 'left', 'down')); flood(network, '10.2.0.1', 100); return rules(network, 'verifyEnd'); }),
  };
}

/** What every node has: by our set-up, and by the script. */
function shell(): unknown {
  const plan: Plan = {
    ...dumbbell({ pairs: 2, six: true, delayNs: 20e6, queue: queue('drr', { flows: 2 }), forward: { overheadBytes: 38, wire: [wire(8e6, { to: ['10.2.0.1', 'fd00:2:0::1'], loss: 0.01 })] }, reverse: { shaper: 'tbf', queue: queue('fq_codel', { limit: 500 }) } }),
    name: "odd '$(reboot)` name\nreboot",
  };
  const names = [...plan.nodes.map(({ netns }) => netns), 'wire'];
  const looks = ['ip -o addr show', 'ip -d -o link show', 'ip route show', 'ip -6 route show', 'ip neigh show', 'ip -6 neigh show', 'tc qdisc show', 'tc -d qdisc show'];
  const perDevice = ['tc class show dev', 'tc filter show dev', 'tc filter show ingress dev'];
  const look = (netns: string): string[] => {
    const exec = (words: string): string => run('ip', 'netns', 'exec', netns, ...words.split(' ')).split('\n').map((text) => text.replace(/guest000-/g, '').replace(/link-netns \S+|group \S+|valid_lft.*|\\? +$|expires \S+|pref medium/g, '').replace(/used \S+|firstused.*|installed.*/g, '').replace(/\s+/g, ' ').trim()).filter(Boolean).sort().join('\n');
    const devices = run('ip', '-n', netns, '-o', 'link').split('\n').flatMap((text) => /^\d+: ([^:@]+)/.exec(text)?.[1] ?? []).filter((name) => name !== 'lo' && name !== 'sit0');
    return [...looks.map((words) => `${words}\n${exec(words)}`), ...devices.flatMap((device) => perDevice.map((words) => `${words} ${device}\n${exec(`${words} ${device}`)}`))];
  };
  const ours = inside(plan, () => names.map((name) => look(`guest000-${name}`)));
  const script = planToShell(plan).replace(/^trap .*$/gm, '');
  writeFileSync('/run/plan.sh', script);
  run('sh', '/run/plan.sh');
  const theirs = names.map((name) => look(name));
  const differences = names.flatMap((name, index) => ours[index]!.flatMap((text, part) => (text === theirs[index]![part] ? [] : [{ name, ours: text, theirs: theirs[index]![part] }])));
  return { differences, looked: ours.flat().length };
}

function errors(): unknown {
  const messages: string[] = [];
  const attempt = (plan: Plan): void => {
    try {
      inside(plan, () => undefined);
      messages.push('it worked');
    } catch (error) {
      messages.push((error as Error).message);
    }
  };
  attempt(dumbbell({ queue: queue('nosuch') }));
  attempt(dumbbell({ queue: { kind: 'raw', in: 'kernel', params: {}, tc: ['codel', 'target', 'soon; reboot'] } }));
  attempt({ ...dumbbell(), tcp: { model: 'linux', hostSysctls: { 'net.ipv4.no_such_thing': '1' }, routerSysctls: {} } });
  attempt(dumbbell({ queue: queue('choke', { limit: 1_000_000, min: 10, max: 100 }) }));
  const left = run('sh', '-c', 'ls /run/netns 2>/dev/null | wc -l').trim();
  return { messages, left };
}

const modes: Readonly<Record<string, () => unknown>> = { delays, rates, events, broken, shell, errors };
console.log(JSON.stringify(modes[process.argv[2] ?? '']!()));
