/** The network of a plan on a real kernel (a guest's), and its plan of steps. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { guestResult, needsGuest } from '../testing/guest.js';
import { direction, dumbbell, queue, wire } from '../testing/plans.js';
import { networkNeeds } from './needs.js';
import { planToShell, quote } from './shell.js';
import { layoutOf, wireNode } from './steps.js';

const script = new URL('./network.guest.js', import.meta.url);
const inGuest = <T>(mode: string): Promise<T> => guestResult<T>(script, { args: [mode], timeoutS: 300 });
const near = (value: number | null, expected: number, share: number, what: string): void => assert.ok(value !== null && Math.abs(value - expected) <= share * expected, `${what}: ${value}, expected ${expected}`);

describe('The steps of a plan', () => {
  it('never put delay on the hop that shapes: netem stands only in the wires\' own namespace', () => {
    const { steps } = layoutOf(dumbbell({ pairs: 3, delayNs: 20e6, forward: { wire: [wire(5e6)] } }));
    const netems = steps.filter((step) => step.do === 'qdisc' && step.kind === 'netem');
    assert.equal(netems.length, 4);
    for (const step of netems) assert.ok(step.do === 'qdisc' && step.node === wireNode);
    for (const step of steps) if (step.do === 'qdisc' && (step.kind === 'htb' || step.kind === 'tbf')) assert.notEqual(step.node, wireNode);
  });

  it('give no two devices the same index, name in a node, or MAC, whatever the links are called', () => {
    const plan = dumbbell({ pairs: 40, delayNs: 1e6 });
    const renamed = { ...plan, links: plan.links.map((link) => ({ ...link, name: `${link.name}-a-very-long-name-of-a-link` })) };
    const { devices } = layoutOf(renamed);
    assert.equal(new Set(devices.map(({ ifindex }) => ifindex)).size, devices.length);
    assert.equal(new Set(devices.map(({ mac }) => mac)).size, devices.length);
    assert.equal(new Set(devices.map(({ node, device }) => `${node} ${device}`)).size, devices.length);
    assert.ok(devices.every(({ device }) => device.length <= 15));
  });

  it("keep the wires' namespace apart from a host called wire", () => {
    const plan = dumbbell({ delayNs: 1e6 });
    const { wireNetns } = layoutOf({ ...plan, nodes: plan.nodes.map((node, index) => (index === 0 ? { ...node, netns: 'wire' } : node)) });
    assert.equal(wireNetns, 'wire-');
  });

  it('make no wire where there is nothing for it to do', () => {
    assert.equal(layoutOf(dumbbell()).wireNetns, null);
    assert.ok(!networkNeeds(dumbbell()).some(({ name }) => name === 'netem' || name === 'mirred'));
  });

  it('name each kernel feature once', () => {
    const needs = networkNeeds(dumbbell({ pairs: 5, delayNs: 1e6, queue: queue('drr') })).map(({ type, name }) => `${type} ${name}`);
    assert.equal(new Set(needs).size, needs.length);
    for (const need of ['link veth', 'qdisc htb', 'qdisc netem', 'qdisc drr', 'qdisc pfifo', 'classifier flow', 'redirect mirred']) assert.ok(needs.includes(need), need);
  });

  it('refuse an unknown kind with what would be accepted', () => {
    assert.throws(() => layoutOf(dumbbell({ queue: queue('fq_codle') })), /link BL1: .*fq_codle.*expected one of .*fq_codel/);
  });

  it('ask the kernel for neither shaper, queue nor netem where the bottleneck is in user space, and lead every delayed link through it', () => {
    const plan = dumbbell({ pairs: 2, delayNs: 20e6, queue: { kind: 'aqmrd', in: 'daemon', params: {} } });
    const { steps, directions, wireNetns } = layoutOf(plan);
    assert.equal(wireNetns, 'wire');
    assert.ok(!steps.some((step) => step.do === 'redirect' || (step.do === 'qdisc' && step.kind === 'netem')));
    const bottleneck = directions.get('BL1')!;
    assert.equal(bottleneck.bottleneck, null);
    assert.equal(bottleneck.daemon!.in.node, wireNode);
    assert.deepEqual([bottleneck.daemon!.in, bottleneck.daemon!.out], [directions.get('BL1.reverse')!.daemon!.out, directions.get('BL1.reverse')!.daemon!.in]);
    for (const { name, direction: { wire: wires }, daemon } of directions.values()) assert.equal(daemon !== null, wires.length > 0 || /^(BL1|D)/.test(name), name);
    assert.ok(!networkNeeds(plan).some(({ name }) => ['aqmrd', 'netem', 'mirred'].includes(name)), 'what is asked of the kernel');
    const text = planToShell(plan);
    assert.match(text, /ip netns exec wire testbed daemon --config "\$config"/);
    assert.equal(spawnSync('sh', ['-n'], { input: text, encoding: 'utf8' }).stderr, '');
  });

  it('leave a direction without a rate to the kernel', () => {
    const plan = dumbbell({ accessBps: null });
    assert.equal(layoutOf(plan).directions.get('S[0]')?.bottleneck, null);
    assert.equal(direction('x').queue, null);
  });
});

describe('A plan as a shell script', () => {
  it('quotes whatever a name may hold', () => {
    for (const word of ["it's", '$(reboot)', '`x`', 'a b', '', '\n;reboot', '"', '\\', '*', '-n']) {
      assert.equal(spawnSync('sh', ['-c', `printf %s ${quote(word)}`], { encoding: 'utf8' }).stdout, word);
    }
  });

  it('is a script that sh can read, traffic and events included', () => {
    const plan = {
      ...dumbbell({ delayNs: 5e6 }), name: 'a\nreboot',
      flows: [
        { id: 0, class: 'long', kind: 'bulk', transport: 'tcp', tool: 'iperf3', src: 'S[0]', dst: 'D[0]', srcAddress: '10.1.0.1', dstAddress: '10.2.0.1', srcPort: 1, dstPort: 5201, startNs: 5e8, stopNs: 9e9, bytes: null, cc: 'reno', ecn: false, rateBps: null, packetBytes: null, bursts: null, toolArgs: ["; reboot '"], baseRttNs: 0 },
        { id: 1, class: 'voice', kind: 'cbr', transport: 'udp', tool: 'builtin', src: 'S[0]', dst: 'D[0]', srcAddress: '10.1.0.1', dstAddress: '10.2.0.1', srcPort: 2, dstPort: 5202, startNs: 0, stopNs: 9e9, bytes: null, cc: null, ecn: false, rateBps: 64e3, packetBytes: 200, bursts: null, toolArgs: [], baseRttNs: 0 },
      ] as const,
      events: [{ atNs: 2e9, direction: 'BL1', set: { rateBps: 5e6, queue: queue('pfifo', { limit: 10 }) } }],
    };
    const text = planToShell(plan);
    assert.equal(spawnSync('sh', ['-n'], { input: text }).status, 0);
    assert.ok(!/^reboot/m.test(text));
    assert.match(text, /sleep 0\.5; exec ip netns exec S\.0 iperf3 -c 10\.2\.0\.1 .*-C reno '; reboot '\\'''/);
    assert.match(text, /iperf3 .* -u -l 172 -b 55040/);
    assert.match(text, /sleep 2; tc -n R1 class change dev right .* rate 5000000bit/);
  });
});

describe('A network in a kernel', function () {
  this.timeout(400_000);
  before(needsGuest);

  it('delays each packet by what the wire says, to the ns, IPv4 and IPv6, by destination, and says nothing of its own', async () => {
    const { plain, six, fine, perDestination, many, lost, silent } = await inGuest<{ plain: number; six: number[]; fine: number; perDestination: number[]; many: number; lost: [null, number[]]; silent: number[] }>('delays');
    assert.ok(plain < 0.2, `${plain} ms without a wire`);
    for (const rtt of six) near(rtt, 25, 0.001, 'RTT through 25 ms');
    near(fine, 12.346, 0.001, 'a delay tc cannot express');
    [10, 10, 30, 50].forEach((expected, index) => near(perDestination[index]!, expected, 0.01, `destination ${index}`));
    near(many, 19, 0.01, 'the nineteenth of twenty destinations');
    assert.deepEqual(lost, [null, [0]], 'losses asked for are not overflow');
    assert.deepEqual(silent, [0, 0], 'packets through the bottleneck in 5 idle seconds');
  });

  it('serves at the configured rate, counting the configured overhead, with HTB and TBF', async () => {
    const rates = await inGuest<Record<string, { bps: number; packetBytes: number; findings: string[] }>>('rates');
    for (const [name, { bps, findings }] of Object.entries(rates)) {
      near(bps, name === 'slow' ? 64e3 : 10e6, name === 'slow' ? 0.13 /* one packet of the eight a second */ : 0.005, name);
      assert.deepEqual(findings, [], name);
    }
    assert.deepEqual(['htb', 'tbf', 'overhead', 'tbfOverhead', 'less', 'jumbo'].map((name) => rates[name]?.packetBytes), [1042, 1042, 1066, 1066, 1028, 8042]);
  });

  it('changes rate, wire and queue by events, and reports an event it cannot make', async () => {
    const { rtts, findings, limit, bps, refused } = await inGuest<{ rtts: number[]; findings: string[]; limit: number; bps: number; refused: string[] }>('events');
    assert.ok(rtts[0]! < 0.2);
    near(rtts[1]!, 40, 0.01, 'RTT after the event');
    assert.deepEqual(findings, []);
    assert.equal(limit, 100);
    near(bps, 5e6, 0.005, 'rate after the event');
    assert.match(refused[0]!, /event at 3 s.*codel.*not the kind/);
  });

  it('sees every broken rule of the field', async () => {
    const broken = await inGuest<Record<string, string[]>>('broken');
    const expected: Record<string, string> = {
      offloads: 'offloads-on', rate: 'rate-not-achieved', burst: 'shaper-burst', r2q: 'shaper-quantum', queue: 'queue-not-set', sysctl: 'sysctl-not-set',
      netem: 'netem-dropped', superpacket: 'superpacket', elsewhere: 'dropped-elsewhere',
    };
    for (const [name, rule] of Object.entries(expected)) assert.ok(broken[name]?.includes(rule), `${name}: ${broken[name]?.join()}`);
  });

  it('is the same made by the shell script', async () => {
    const { differences, looked } = await inGuest<{ differences: unknown[]; looked: number }>('shell');
    assert.deepEqual(differences, []);
    assert.ok(looked > 80);
  });

  it('says what failed, where, in the kernel\'s words, with a fix, and leaves nothing', async () => {
    const { messages, left } = await inGuest<{ messages: string[]; left: string }>('errors');
    assert.match(messages[0]!, /nosuch: unknown kind/);
    assert.match(messages[1]!, /node R1, device right: .*tc says: Illegal "target"/);
    assert.match(messages[2]!, /node S\[0\]: .*no_such_thing.*ENOENT; .*take it out/);
    assert.match(messages[3]!, /choke limit 1000000 .*EINVAL; check the parameters/);
    assert.equal(left, '0');
  });
});
