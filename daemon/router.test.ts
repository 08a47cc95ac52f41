/** `testbed daemon` on a router: packets pass through it, and however it ends they flow on and everything is as it was. */

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import { eventually, Place, skip, type Started } from '../testbed/testing/command.js';
import { noPrivateHost, PrivateHost } from '../testbed/testing/private-host.js';

/** Makes this host a router between h1 (by eth1) and h2 (by eth2), IPv4 and IPv6, with strict reverse-path filtering. eth3 leads elsewhere. */
const makeRouter = `set -e
for n in h1 h2 h3; do ip netns add $n; ip -n $n link set lo up; done
for i in 1 2 3; do
  ip link add eth$i type veth peer name e netns h$i
  ip addr add 10.0.$i.1/24 dev eth$i; ip addr add fd00:$i::1/64 dev eth$i nodad; ip link set eth$i up
  ip -n h$i addr add 10.0.$i.2/24 dev e; ip -n h$i addr add fd00:$i::2/64 dev e nodad; ip -n h$i link set e up
  ip -n h$i route add default via 10.0.$i.1; ip -n h$i -6 route add default via fd00:$i::1
done
sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.conf.all.rp_filter=1`;

describe('testbed daemon', function () {
  this.timeout(180_000);
  let host: PrivateHost;
  let place: Place;
  const state = (): string => host.run('sh', '-c', 'ip rule; ip -6 rule; ip route show table all; ip -N -o link; grep -H . /proc/sys/net/ipv4/conf/*/rp_filter; ls /run/testbed 2>/dev/null || true').replace(/ (state|pref|expires|hoplimit) \S+/g, '');

  before(async function () {
    const reason = noPrivateHost();
    if (reason !== undefined) skip(this, reason);
    if (!fs.existsSync('/dev/net/tun')) skip(this, 'there is no /dev/net/tun');
    host = await PrivateHost.create();
    host.run('sh', '-c', makeRouter);
    place = new Place();
    await settled();
    await eventually('the router forwards', () => rtt('10.0.2.2') !== null && rtt('fd00:2::2') !== null && rtt('10.0.3.2') !== null);
  });
  after(() => {
    host?.end();
    place?.remove();
  });

  /** Duplicate address detection is over: until then local routes are missing. */
  const settled = (): Promise<void> => eventually('its addresses are settled', () => !/tentative/.test(host.run('ip', '-6', 'addr')));

  /** Least RTT of three echoes, ms; null when nothing comes back. Load can only make it longer. */
  function rtt(to: string, from = 'h1', patienceS = 10): number | null {
    try {
      return Number(/= ([\d.]+)\//.exec(host.run('ip', 'netns', 'exec', from, 'ping', '-q', '-c', '3', '-i', '0.05', '-W', String(patienceS), to))?.[1]);
    } catch {
      return null;
    }
  }
  const start = async (...more: readonly string[]): Promise<Started> => {
    const started = place.start(['daemon', '--in', 'eth1', '--out', 'eth2', '--rate', '20mbit', ...more], { under: host.under });
    await eventually(() => `it stands: ${started.output()}`, () => /Ctrl-C ends it|"statistics"/.test(started.output()) || started.child.exitCode !== null, 60_000);
    return started;
  };
  /** Living processes of the private host whose command line matches. */
  const pidsOf = (pattern: RegExp): number[] => host.run('ps', '-e', '-o', 'pid=,args=').split('\n').filter((line) => pattern.test(line) && !/ ps -e/.test(line)).map((line) => Number(line.trim().split(' ')[0]));
  const kill = (...pids: readonly number[]): void => { host.run('kill', '-9', ...pids.map(String)); };

  it('queues what goes from one device to the other, IPv4 and IPv6, and sets everything back at Ctrl-C', async () => {
    const before = state();
    const started = await start('--queue', 'codel target 5ms', '--delay', '20ms', '--json');
    for (const address of ['10.0.2.2', 'fd00:2::2']) {
      const ms = rtt(address);
      assert.ok(ms !== null && ms >= 20, `${address}: ${ms} ms, ${started.output()}`);
    }
    assert.match(host.run('sh', '-c', 'ip netns exec h1 ping -c 1 -t 2 -W 10 10.0.2.2 || true'), /1 received/, 'the router costs one hop, as ever');
    const [parent] = pidsOf(/bin\/testbed.cjs daemon/);
    host.run('kill', '-INT', String(parent));
    const { code, stdout, stderr } = await started.ended;
    assert.equal(code, 0, stderr);
    const last = JSON.parse(stdout.trimEnd().split('\n').at(-1)!) as { type: string; directions: { name: string; arrivedPackets: number; sentPackets: number }[] };
    assert.deepEqual(last.directions.map(({ name }) => name), ['eth1→eth2']);
    const { arrivedPackets, sentPackets } = last.directions[0]!;
    // Beside what the TUN device's own IPv6 says when it comes up.
    assert.ok(arrivedPackets >= 7 && sentPackets === arrivedPackets, `the echoes of h1 to h2, 3 + 3 + 1: ${arrivedPackets}, ${sentPackets}`);
    assert.equal(state(), before);
  });

  it('in both directions has a bottleneck each', async () => {
    const before = state();
    const started = await start('--queue', 'fq_codel', '--reverse-rate', '5mbit', '--reverse-queue', 'pie', '--reverse-delay', '10ms', '--delay', '10ms', '--duration', '4s', '--json');
    const ms = rtt('10.0.2.2');
    assert.ok(ms !== null && ms >= 20, `${ms} ms`);
    const { code, stdout, stderr } = await started.ended;
    assert.equal(code, 0, stderr);
    const last = JSON.parse(stdout.trimEnd().split('\n').at(-1)!) as { type: string; directions: { name: string; sentPackets: number }[] };
    assert.equal(last.type, 'summary');
    assert.deepEqual(last.directions.map(({ name }) => name), ['eth1→eth2', 'eth2→eth1']);
    assert.ok(last.directions.every(({ sentPackets }) => sentPackets >= 3), stdout);
    assert.equal(state(), before);
  });

  it("takes nothing else; and when its packet process is killed with -9 lets packets flow on, says so, and sets everything back", async () => {
    const before = state();
    // It lets nothing pass, so whatever passes went past it.
    const started = await start('--loss', '100%');
    for (const address of ['10.0.2.2', 'fd00:2::2']) assert.equal(rtt(address, 'h1', 1), null, `${address} is led through it`);
    for (const [address, from] of [['10.0.3.2', 'h1'], ['fd00:3::2', 'h1'], ['10.0.3.2', 'h2'], ['10.0.2.2', 'h3'], ['fd00:2::2', 'h3']] as const) assert.notEqual(rtt(address, from), null, `${from} to ${address} is not`);
    await eventually('it shows its statistics', () => started.output().includes('eth1→eth2  '));
    kill(...pidsOf(/dist\/daemon.mjs/));
    const { code, stderr } = await started.ended;
    assert.equal(code, 1);
    assert.match(stderr, /ended on its own \(signal SIGKILL\)/);
    assert.notEqual(rtt('10.0.2.2'), null);
    assert.equal(state(), before);
  });

  for (const [option, device, peer] of [['--out', 'eth2', 'h2'], ['--in', 'eth1', 'h1']] as const) {
    it(`whose ${option} device is taken away says so, ends with an exit code of its own, and sets back the rest`, async () => {
      const add = `ip link add ${device} type veth peer name e netns ${peer} && ip addr add 10.0.${device.slice(3)}.1/24 dev ${device} && ip addr add fd00:${device.slice(3)}::1/64 dev ${device} nodad && ip link set ${device} up `
        + `&& ip -n ${peer} addr add 10.0.${device.slice(3)}.2/24 dev e && ip -n ${peer} addr add fd00:${device.slice(3)}::2/64 dev e nodad && ip -n ${peer} link set e up `
        + `&& ip -n ${peer} route add default via 10.0.${device.slice(3)}.1 && ip -n ${peer} -6 route add default via fd00:${device.slice(3)}::1`;
      const started = await start('--delay', '20ms', '--reverse-delay', '5ms');
      host.run('ip', 'link', 'del', device);
      const without = state();
      const { code, stderr } = await started.ended;
      assert.equal(code, 1, stderr);
      assert.match(stderr, new RegExp(`ended on its own \\(the network device ${device} is gone\\)`));
      assert.ok(!/at .*\.js:|run testbed clean/.test(stderr), stderr);
      // Nothing of the daemon is left: what was there without the device, less its rules, TUNs and journal.
      assert.doesNotMatch(state(), /suppress_ifgroup|iif eth|: tb\w+[fr]:|dev tb|group (0x7464|29796)/);
      assert.ok(without.length > 0);
      assert.equal(host.run('sh', '-c', 'ls /run/testbed 2>/dev/null || true'), '');
      const cleaned = await place.testbed(['clean'], { under: host.under });
      assert.match(cleaned.stdout + cleaned.stderr, /nothing|Nothing/);
      host.run('sh', '-c', add);
      await eventually('the router forwards again', () => rtt('10.0.2.2') !== null && rtt('fd00:2::2') !== null);
      await settled();
    });
  }

  it('killed with -9 as a whole leaves a router that forwards, and testbed clean takes the rest away', async () => {
    const before = state();
    const started = await start('--loss', '100%');
    kill(...pidsOf(/bin\/testbed.cjs daemon|dist\/daemon.mjs/));
    await started.ended;
    await eventually('nothing of it runs', () => pidsOf(/dist\/daemon.mjs/).length === 0);
    for (const address of ['10.0.2.2', 'fd00:2::2', '10.0.3.2']) assert.notEqual(rtt(address), null, `${address} is forwarded`);
    assert.match(host.run('ip', 'rule'), /iif eth1 lookup main suppress_ifgroup/);
    const cleaned = await place.testbed(['clean'], { under: host.under });
    assert.equal(cleaned.code, 0, cleaned.stderr);
    assert.match(cleaned.stdout, /IPv4 rule .*iif eth1.*[^]*group of device eth2/);
    assert.equal(state(), before);
  });

  it('whose parent alone is killed with -9 ends, too', async () => {
    const started = await start('--loss', '100%');
    kill(...pidsOf(/bin\/testbed.cjs daemon/));
    await started.ended;
    await eventually('its packet process ends', () => pidsOf(/dist\/daemon.mjs/).length === 0);
    assert.notEqual(rtt('10.0.2.2'), null);
    await place.testbed(['clean'], { under: host.under });
  });

  it('says what is wrong in one message, with an exit code, and leaves nothing behind', async () => {
    const before = state();
    const unprivileged = ['setpriv', '--bounding-set=-net_admin,-net_raw', '--inh-caps=-net_admin,-net_raw', '--no-new-privs'];
    const cases: readonly (readonly [words: readonly string[], message: RegExp, under?: readonly string[]])[] = [
      [['--in', 'eth1', '--out', 'eth9', '--rate', '1mbit'], /^--out eth9: there is no such network device; there are .*eth1/],
      [['--in', 'eth1', '--out', 'eth1', '--rate', '1mbit'], /two devices/],
      [['--in', 'eth1', '--out', 'eth2'], /--rate/],
      [['--in', 'eth1', '--out', 'eth2', '--rate', '5 apples'], /expected a rate/],
      [['--in', 'eth1', '--out', 'eth2', '--rate', '1mbit', '--queue', 'codel targte 5ms'], /no parameter "targte"/],
      [['--in', 'eth1', '--out', 'eth2', '--rate', '1mbit', '--queue', 'cubic'], /no queue discipline "cubic"/],
      [['--in', 'eth1', '--out', 'eth2', '--rate', '1mbit'], /run as root/, unprivileged],
    ];
    for (const [words, message, under = []] of cases) {
      const { code, stderr, stdout } = await place.testbed(['daemon', ...words], { under: [...host.under, ...under] });
      assert.ok(code !== 0 && code !== null, words.join(' '));
      assert.match(stderr, message);
      assert.ok(!/at .*\.js:|bug in testbed/.test(stderr) && stdout === '', stderr);
      assert.equal(state(), before, words.join(' '));
    }
    host.run('sh', '-c', 'mkdir -p /run/empty && mount --bind /run/empty /dev/net');
    try {
      const { code, stderr } = await place.testbed(['daemon', '--in', 'eth1', '--out', 'eth2', '--rate', '1mbit'], { under: host.under });
      assert.ok(code !== 0);
      assert.match(stderr, /\/dev\/net\/tun cannot be opened .*modprobe tun/);
    } finally {
      host.run('sh', '-c', 'umount /dev/net && rmdir /run/empty');
    }
    assert.equal(state(), before);
    host.run('sysctl', '-qw', 'net.ipv4.ip_forward=0', 'net.ipv6.conf.all.forwarding=0');
    const { code, stderr } = await place.testbed(['daemon', '--in', 'eth1', '--out', 'eth2', '--rate', '1mbit'], { under: host.under });
    assert.ok(code !== 0);
    assert.match(stderr, /does not forward.*sysctl/);
  });
});
