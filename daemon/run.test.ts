/** Scenarios with their bottleneck in user space, end to end: what is recorded, and how it compares with the kernel's own queue disciplines. */

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import type { DaemonSummary } from './config.js';
import { daemonFindings } from '../testbed/network/daemon.js';
import { mayUseNamespaces } from '../testbed/machines/local.js';
import { openDatabase, sqlPath } from '../testbed/records/database.js';
import { digests, eventually, needsUml, Place, rulesOf, runJson, skip } from '../testbed/testing/command.js';
import { dumbbellText } from '../testbed/testing/scenarios.js';

/** Mean sojourn of the window, ns, packets and drops, from the table itself. */
async function packetsOf(run: string, fromNs: number, toNs: number): Promise<{ meanNs: number; packets: number; drops: number; minNs: number; maxNs: number }> {
  const database = await openDatabase();
  try {
    const [row] = await database.rows<{ meanNs: number; packets: number; drops: number; minNs: number; maxNs: number }>(`SELECT avg(t_dequeue - t_enqueue) AS "meanNs", count(*) AS packets,
      count(*) FILTER (dropped) AS drops, min(t_dequeue - t_enqueue) AS "minNs", max(t_dequeue - t_enqueue) AS "maxNs"
      FROM read_parquet(${sqlPath(path.join(run, 'packets.parquet'))}) WHERE bottleneck = 'BL' AND t_enqueue >= ${fromNs} AND t_enqueue < ${toNs}`);
    return row!;
  } finally {
    database.close();
  }
}

/** When packets left the bottleneck, ns, in order. */
async function departuresOf(run: string): Promise<number[]> {
  const database = await openDatabase();
  try {
    return (await database.rows<{ at: number }>(`SELECT CAST(t_dequeue AS DOUBLE) AS at FROM read_parquet(${sqlPath(path.join(run, 'packets.parquet'))}) WHERE bottleneck = 'BL' AND t_dequeue IS NOT NULL ORDER BY t_dequeue`)).map(({ at }) => at);
  } finally {
    database.close();
  }
}

/** The queue's samples nearest to these times. */
async function samplesOf(run: string, timesNs: readonly number[]): Promise<{ backlog: number; drops: number }[]> {
  const database = await openDatabase();
  try {
    return [...await database.rows<{ backlog: number; drops: number }>(`SELECT CAST(backlog_packets AS INTEGER) AS backlog, CAST(drops AS INTEGER) AS drops
      FROM read_parquet(${sqlPath(path.join(run, 'queue.parquet'))}) WHERE bottleneck = 'BL' AND round(t / 1e6) IN (${timesNs.map((ns) => ns / 1e6).join(', ')}) ORDER BY t`)];
  } finally {
    database.close();
  }
}

describe('a run with its bottleneck in user space', function () {
  this.timeout(300_000);
  let place: Place;
  before(() => { place = new Place(); });
  after(() => place.remove());

  const run = async (name: string, text: string, ...more: readonly string[]): Promise<string> => {
    const ended = await place.testbed(['run', place.write(`${name}.yaml`, text), '--no-report', '--out', place.path(name), ...more]);
    assert.equal(ended.code, 0, ended.stderr + ended.stdout);
    return place.run(name);
  };

  const simulated = async (name: string, text: string): Promise<string> => {
    const ended = await place.testbed(['sim', place.write(`${name}.yaml`, text), '--no-report', '--out', place.path(name)]);
    assert.equal(ended.code, 0, ended.stderr + ended.stdout);
    return place.run(name);
  };

  describe('on uml, in virtual time', () => {
    before(needsUml);

    it('has the same tables as one with a kernel queue, the same bytes for the same seed, and leaves nothing behind', async () => {
      const text = dumbbellText({
        name: 'user', pairs: 2, queue: '{ kind: red, in: daemon, min: 10p, max: 40p, probability: 0.1 }', probes: '{ ping: { from: S[0], to: D[0], interval: 10ms } }',
        more: 'events: [{ at: 1s, set: { BL.rate: 10mbit } }, { at: 1500ms, set: { BL.loss: 2% } }]',
      });
      const [one, two] = [await run('one', text, '--machine', 'uml', '--seed', '5'), await run('two', text, '--machine', 'uml', '--seed', '5')];
      assert.deepEqual(digests(one), digests(two));
      assert.notDeepEqual(digests(await run('other', text, '--machine', 'uml', '--seed', '6')), digests(one));
      const { counts, status, facts } = runJson(one);
      assert.equal(status, 'complete');
      assert.ok(counts['packets']! > 1500 && counts['queue']! > 190, JSON.stringify(counts));
      assert.deepEqual((facts as { daemon: { faults: unknown } }).daemon.faults, { ringLost: 0, noSlot: 0, superpackets: 0, unfinishedChecksums: 0, notSent: 0, lastErrno: 0 });
      const early = await packetsOf(one, 500e6, 1000e6), late = await packetsOf(one, 1000e6, 1500e6);
      assert.ok(Math.abs((early.packets - early.drops) / (late.packets - late.drops) - 2) < 0.3, `the rate was halved: ${early.packets} and ${late.packets} packets`);
      await place.assertNothingLeft();
    });

    it('holds each packet of a full drop-tail queue of 100 for 100 services', async () => {
      const text = dumbbellText({ name: 'fifo', queue: '{ kind: pfifo, in: daemon, limit: 100p }', traffic: '{ flood: { kind: cbr, from: S[0], to: D[0], rate: 40mbit, packet: 1500B } }' });
      const { meanNs, minNs, maxNs } = await packetsOf(await run('fifo', text, '--machine', 'uml'), 500e6, 2000e6 - 100e6);
      // A packet takes the hundredth place up to a gap between two arrivals after one left, and leaves with the hundredth service from then.
      const service = (1514 * 8e9) / 20e6, gap = (1500 * 8e9) / 40e6;
      assert.ok(maxNs <= 100 * service + 1e3 && minNs >= 100 * service - gap - 1e3, `${minNs} … ${maxNs}`);
      assert.ok(Math.abs(meanNs / (100 * service - gap / 2) - 1) < 0.005, `${meanNs} of ${100 * service - gap / 2}`);
    });

    // Traffic that does not respond, half as much again as the link carries; the limit falls while the queue is full.
    const changes = {
      codel: ['limit: 150p', 'limit: 40p, target: 20ms'],
      fq_codel: ['limit: 200p', 'limit: 40p, target: 20ms'],
      red: ['min: 20p, max: 60p, limit: 200p', 'min: 40p, max: 120p, limit: 400p'],
    } as const;
    for (const [kind, [before, after]] of Object.entries(changes)) {
      it(`changes the parameters of ${kind} at a time as tc qdisc change does, and so does the simulator`, async () => {
        const changeNs = 1500e6;
        const text = (where: string): string => dumbbellText({
          name: kind, pairs: 2, queue: `{ kind: ${kind}, in: ${where}, ${before} }`, measure: '{ warmup: 500ms, duration: 2s }',
          traffic: '{ much: { kind: cbr, from: S[0], to: D[0], rate: 18mbit, packet: 1500B }, some: { kind: cbr, from: S[1], to: D[1], rate: 10mbit, packet: 700B } }',
          more: `collect: { queue: 10ms }\nevents: [{ at: 1500ms, set: { BL.queue: { kind: ${kind}, in: ${where}, ${after} } } }]`,
        });
        const runs = [
          await run(`${kind}-change-kernel`, text('kernel'), '--machine', 'uml'),
          await run(`${kind}-change-daemon`, text('daemon'), '--machine', 'uml'),
          await simulated(`${kind}-change-sim`, text('kernel')),
        ];
        const seen = [];
        for (const one of runs) seen.push(await samplesOf(one, [0, 10e6, 100e6].map((ns) => changeNs + ns)));
        const [kernel, ...ours] = seen;
        const told = JSON.stringify(seen);
        for (const one of ours) {
          assert.equal(one.length, 3, told);
          one.forEach(({ backlog, drops }, i) => {
            assert.ok(Math.abs(backlog - kernel![i]!.backlog) <= 6, `backlog ${i}: ${told}`);
            assert.ok(Math.abs(drops - kernel![i]!.drops) <= Math.max(8, 0.03 * kernel![i]!.drops), `drops ${i}: ${told}`);
          });
        }
      });
    }

    it('shapes with TBF as the kernel does, short packets in bursts, and the leaf keeps its limit when the rate changes; so does the simulator', async () => {
      const text = (where: string): string => dumbbellText({
        name: 'tbf', pairs: 2, queue: `{ kind: pfifo, in: ${where}, limit: 60p }, shaper: tbf`, measure: '{ warmup: 500ms, duration: 2s }',
        traffic: '{ much: { kind: cbr, from: S[0], to: D[0], rate: 15.91mbit, packet: 1500B }, some: { kind: cbr, from: S[1], to: D[1], rate: 9.07mbit, packet: 300B } }',
        more: 'collect: { queue: 10ms }\nevents: [{ at: 1500ms, set: { BL.rate: 10mbit } }]',
      });
      const runs = [await run('tbf-kernel', text('kernel'), '--machine', 'uml'), await run('tbf-daemon', text('daemon'), '--machine', 'uml'), await simulated('tbf-sim', text('kernel'))];
      const found = [];
      for (const one of runs) found.push({ ...(await packetsOf(one, 500e6, 1500e6)), late: await packetsOf(one, 1600e6, 2400e6) });
      const told = JSON.stringify(found);
      for (const { packets, drops, meanNs, late } of found) {
        // Which of the two flows finds the last place depends on microseconds; their rates are such that these do not repeat.
        assert.ok(Math.abs(packets / found[0]!.packets - 1) < 0.005 && Math.abs(drops / found[0]!.drops - 1) < 0.08, told);
        assert.ok(Math.abs(meanNs / found[0]!.meanNs - 1) < 0.03 && Math.abs(late.meanNs / found[0]!.late.meanNs - 1) < 0.03, told);
        // 60 packets at most, in front of a link of half the rate: the kernel's tbf_change() would have made it 1514.
        assert.ok(late.maxNs <= 61 * ((1514 * 8e9) / 10e6), told);
      }
    });

    it('lets what TBF saved go at the peak rate as the kernel does; so does the simulator', async () => {
      const text = (where: string): string => dumbbellText({
        name: 'peak', queue: `{ kind: pfifo, in: ${where} }, shaper: tbf, burst: 30kB, peakrate: 40mbit`, rate: '10mbit', measure: '{ warmup: 0s, duration: 3s }',
        traffic: '{ some: { kind: onoff, from: S, to: D, rate: 80mbit, packet: 1000B, on: 10ms, off: 290ms } }',
      });
      const runs = [await run('peak-kernel', text('kernel'), '--machine', 'uml'), await run('peak-daemon', text('daemon'), '--machine', 'uml'), await simulated('peak-sim', text('kernel'))];
      const [kernel, ...ours] = await Promise.all(runs.map(departuresOf));
      assert.ok(kernel!.length > 900, `${kernel!.length} packets`);
      // A burst is 10 ms at twice the peak rate: 30 kB beside what comes in meanwhile leave at the peak rate, the rest at the rate.
      const gaps = kernel!.slice(1).map((at, k) => at - kernel![k]!);
      for (const rateBps of [40e6, 10e6]) assert.ok(gaps.filter((gap) => Math.abs(gap / ((1014 * 8e9) / rateBps) - 1) < 0.02).length > 200, `${rateBps}: ${gaps.slice(0, 100).join(' ')}`);
      for (const departures of ours) {
        assert.equal(departures.length, kernel!.length);
        // The daemon reads the first packets of a run late.
        departures.forEach((at, k) => { assert.ok(k < 100 || Math.abs(at - kernel![k]!) < 10e3, `packet ${k}: ${at}, kernel ${kernel![k]}`); });
      }
    });

    // Four CUBIC flows; and three that do not respond, a tenth more than the link carries, where nothing is left to the senders' chance.
    const loads = {
      codel: { pairs: 4, rtt: '50ms' },
      fq_codel: { pairs: 3, traffic: '{ much: { kind: cbr, from: S[0], to: D[0], rate: 12mbit, packet: 1500B }, some: { kind: cbr, from: S[1], to: D[1], rate: 6mbit, packet: 1000B }, few: { kind: cbr, from: S[2], to: D[2], rate: 4mbit, packet: 500B } }' },
    };
    for (const [kind, load] of Object.entries(loads)) {
      it(`queues with ${kind} as the kernel's own does`, async () => {
        const text = (where: string): string => dumbbellText({ name: kind, ...load, queue: `{ kind: ${kind}, in: ${where} }`, measure: '{ warmup: 4s, duration: 12s }' });
        const kernel = await packetsOf(await run(`${kind}-kernel`, text('kernel'), '--machine', 'uml'), 4e9, 16e9);
        const daemon = await packetsOf(await run(`${kind}-daemon`, text('daemon'), '--machine', 'uml'), 4e9, 16e9);
        assert.ok(Math.abs(daemon.meanNs / kernel.meanNs - 1) < 0.08, `mean queueing delay: ${daemon.meanNs / 1e6} ms, kernel ${kernel.meanNs / 1e6} ms`);
        assert.ok(Math.abs(daemon.drops - kernel.drops) <= Math.max(6, 0.25 * kernel.drops), `drops: ${daemon.drops}, kernel ${kernel.drops}`);
        assert.ok(Math.abs(daemon.packets / kernel.packets - 1) < 0.01, `packets: ${daemon.packets}, kernel ${kernel.packets}`);
      });
    }
  });

  it('fails, saying so, when the daemon dies under way, and leaves nothing behind', async function () {
    if (!mayUseNamespaces()) skip(this, 'network namespaces on this host need root');
    const text = dumbbellText({ name: 'dies', queue: '{ kind: codel, in: daemon }', rtt: '30ms', measure: '{ warmup: 1s, duration: 60s }' });
    const started = place.start(['run', place.write('dies.yaml', text), '--no-report', '--out', place.path('dies'), '--machine', 'local']);
    const traffic = (): boolean => place.runs('dies').some((folder) => fs.existsSync(path.join(folder, 'raw', 'agent.jsonl')) && fs.readFileSync(path.join(folder, 'raw', 'agent.jsonl'), 'utf8').includes('"traffic"'));
    await eventually('traffic flows', () => traffic() || started.child.exitCode !== null);
    const victim = place.processes().find(({ command }) => command.includes('daemon.mjs'));
    assert.ok(victim, JSON.stringify(place.processes()));
    process.kill(victim.pid, 'SIGKILL');
    const { code } = await started.ended;
    assert.ok(code !== 0);
    const folder = place.run('dies');
    assert.equal(runJson(folder).status, 'failed');
    assert.ok(rulesOf(folder, 'failed').includes('daemon-died'), JSON.stringify(runJson(folder).findings));
    await place.assertNothingLeft();
  });

  it('is invalid when packets left late in real time, were lost outside the queue, or came too large', () => {
    const fine: DaemonSummary = {
      directions: [{ name: 'BL', rateBps: 1e6, arrivedPackets: 9, sentPackets: 9, sentBytes: 9, drops: 0, marks: 0, backlogPackets: 0, backlogBytes: 0, lost: 0, overflowed: 0, sojournMeanNs: 0, sojournP99Ns: 0, sojournMaxNs: 0 }],
      lateness: { packets: 9, p50Ns: 20e3, p99Ns: 100e3, maxNs: 5e6 }, pace: { samples: 9000, slowShare: 0, slowest: 0.9, lateness: { packets: 9, p50Ns: 20e3, p99Ns: 90e3, maxNs: 1e6 } }, faults: { ringLost: 0, noSlot: 0, superpackets: 0, unfinishedChecksums: 0, notSent: 0, lastErrno: 0 },
    };
    const rules = (summary: DaemonSummary, clock: 'virtual' | 'real' = 'real'): string[] => daemonFindings(summary, clock).map(({ level, rule }) => `${level} ${rule}`);
    assert.deepEqual(rules(fine), []);
    assert.deepEqual(rules({ ...fine, lateness: { ...fine.lateness, p99Ns: 1.1e6 } }), ['invalid late']);
    assert.deepEqual(rules({ ...fine, lateness: { ...fine.lateness, maxNs: 51e6 } }), ['invalid late']);
    assert.deepEqual(rules({ ...fine, lateness: { ...fine.lateness, maxNs: 51e6 } }, 'virtual'), []);
    const told = (pace: DaemonSummary['pace']): string => daemonFindings({ ...fine, lateness: { ...fine.lateness, p99Ns: 1.1e6 }, pace }, 'real')[0]!.message;
    assert.match(told({ ...fine.pace!, slowShare: 0.07, slowest: 1 / 12 }), /it ran at less than half its speed 7\.0 % of the time, at worst at 1\/12.* 0\.09 ms/);
    assert.doesNotMatch(told(fine.pace), /processor/);
    assert.deepEqual(rules({ ...fine, directions: [{ ...fine.directions[0]!, overflowed: 1 }] }), ['invalid wire-dropped']);
    for (const [fault, rule] of [['ringLost', 'daemon-overrun'], ['noSlot', 'daemon-memory'], ['superpackets', 'superpacket'], ['unfinishedChecksums', 'offloads-on'], ['notSent', 'daemon-not-sent']] as const) {
      assert.deepEqual(rules({ ...fine, faults: { ...fine.faults, [fault]: 1 } }), [`invalid ${rule}`]);
    }
  });

  it('needs neither netem nor the AQM of the local kernel, and is invalid only for being late', async function () {
    if (!mayUseNamespaces()) skip(this, 'network namespaces on this host need root');
    const text = dumbbellText({ name: 'local', queue: '{ kind: aqmrd, in: daemon }', rtt: '30ms', measure: '{ warmup: 300ms, duration: 700ms }', more: 'collect: { packets: true }' });
    const ended = await place.testbed(['run', place.write('local.yaml', text), '--no-report', '--out', place.path('local'), '--machine', 'auto']);
    assert.ok(ended.code === 0 || ended.code === 1, ended.stderr);
    const folder = place.run('local');
    assert.equal(runJson(folder).machine, 'local');
    assert.deepEqual(rulesOf(folder, 'failed'), []);
    assert.deepEqual(rulesOf(folder, 'invalid').filter((rule) => rule !== 'late'), []);
    assert.ok(runJson(folder).counts['packets']! > 100, JSON.stringify(runJson(folder).counts));
    await place.assertNothingLeft();
  });
});
