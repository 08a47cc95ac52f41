/** The collectors against a real kernel in virtual time: one guest runs every phase (collectors.guest.ts), the tests judge what it recorded. */

import assert from 'node:assert/strict';
import { scaleHash } from '../aqm/integer.js';
import { guestResult, needsGuest } from '../testbed/testing/guest.js';
import { none } from '../testbed/records/record-file.js';

interface Finding { readonly level: string; readonly rule: string; readonly message: string }
interface Balance {
  readonly findings: readonly Finding[];
  readonly arrivals: number; readonly departures: number; readonly unpaired: number; readonly strangers: number; readonly marked: number;
  readonly identified: number; readonly forward: number; readonly drops: number; readonly sent: number; readonly queued: number;
  readonly dictionary: { readonly lost: number; readonly directions: readonly string[] };
}
type Row = Readonly<Record<string, number | null>>;
interface Cbr extends Balance { readonly sentAt: readonly number[]; /** Arrival and departure, ns, and the places of their records. */ readonly packets: readonly (readonly [number, number | null, number, number | null])[]; readonly samples: readonly Row[]; readonly reverse: number }
interface Marks extends Balance { readonly samples: readonly Row[]; readonly text: string }
interface Bulk extends Balance { readonly reverse: Balance; readonly ss: string; readonly sockets: readonly Row[]; readonly samples: number }
interface Probes { readonly findings: readonly Finding[]; readonly rows: readonly Row[]; readonly ping: string; readonly flows?: readonly string[] }
interface Phases {
  readonly 'cbr-htb': Cbr; readonly 'cbr-tbf': Cbr; readonly codel: Marks; readonly red: Marks; readonly bulk: Bulk;
  readonly 'small-ring': Balance; readonly superpacket: { readonly findings: readonly Finding[] };
  readonly probes: Probes; readonly lossy: Probes; readonly ipv6: Balance & { readonly ecn: readonly number[]; readonly sizes: readonly number[] };
  readonly hashes: { readonly findings: readonly Finding[]; readonly text: string; readonly flows: readonly (readonly [number, number])[]; readonly changed: number };
}

/** A virtual clock of 256 ns resolution that each reading moves on by as much (arch/um/kernel/time.c, timer_read). */
const clockNs = 1500;
const near = (value: number | null | undefined, expected: number, toleranceNs: number, what: string): void =>
  assert.ok(value !== null && value !== undefined && Math.abs(value - expected) <= toleranceNs, `${what}: ${value}, expected ${expected} ± ${toleranceNs}`);

/** A garbage collection of the process that sends reads the clock some hundred times, and may fall between reading the time of sending and sending. */
const collectionNs = 200_000;
const mostly = (values: readonly number[], expected: number, toleranceNs: number): void => {
  const off = values.filter((value) => Math.abs(value - expected) > toleranceNs);
  assert.ok(off.length <= 0.05 * values.length, `${off.length} of ${values.length} are not ${expected} ± ${toleranceNs}: ${off.slice(0, 5).join(', ')}`);
};

describe('Collectors in a guest', function () {
  this.timeout(560_000); // a loaded host only takes longer
  let phases: Phases;
  before(needsGuest);
  before(async () => {
    phases = await guestResult<Phases>(new URL('./collectors.guest.js', import.meta.url), { timeoutS: 500, memoryMiB: 768 });
  });

  for (const shaper of ['htb', 'tbf'] as const) {
    describe(`a CBR stream of twice the rate through pfifo under ${shaper}`, () => {
      /** (1000 + 14) bytes at 10 Mbit/s. */
      const serialisationNs = 811_200;

      it('arrives exactly when it was sent', () => {
        const { sentAt, packets } = phases[`cbr-${shaper}`];
        assert.equal(packets.length, 500);
        packets.forEach(([arrival], i) => near(arrival, sentAt[i]!, collectionNs, `arrival ${i}`));
        mostly(packets.map(([arrival], i) => arrival - sentAt[i]!), 0, clockNs);
      });

      it('leaves one serialisation time apart, so every sojourn time is the arithmetic of the queue', () => {
        const through = phases[`cbr-${shaper}`].packets.filter((packet): packet is [number, number, number, number] => packet[1] !== null);
        const first = through.findIndex(([arrival, departure]) => departure > arrival);
        assert.ok(first >= 0 && first <= 3, 'the shaper lets no more than its burst through at once');
        const start = through[first]![1];
        through.slice(first).forEach(([arrival, departure], i) => {
          near(departure, start + i * serialisationNs, clockNs, `departure ${i}`);
          near(departure - arrival, start + i * serialisationNs - arrival, clockNs, `sojourn time ${i}`);
        });
      });

      it('loses exactly the packets that find the queue full', () => {
        const { packets } = phases[`cbr-${shaper}`];
        const waiting: number[] = []; // where in the record they leave; the order tells what the clock's resolution does not
        for (const [arrival, departure, place, left] of packets) {
          while (waiting.length > 0 && waiting[0]! < place) waiting.shift();
          if (left === null) {
            assert.equal(waiting.length, 20, `a packet was lost at ${arrival} with ${waiting.length} packets waiting`);
          } else {
            assert.ok(waiting.length < 20 || departure === arrival, `a packet was taken at ${arrival} into a full queue`);
            waiting.push(left);
          }
        }
      });

      it('is counted by the capture as the queue discipline counts it', () => {
        const all = phases[`cbr-${shaper}`];
        assert.deepEqual(all.findings, []);
        assert.equal(all.arrivals, 500);
        assert.equal(all.unpaired, all.drops);
        assert.equal(all.departures - all.strangers, all.arrivals - all.drops);
        assert.equal(all.identified, all.arrivals + all.arrivals - all.drops);
        assert.equal(all.forward, all.identified);
        assert.ok(all.drops > 200);
      });

      it('is sampled every interval, and exactly at both edges of the window', () => {
        const { samples, reverse, packets } = phases[`cbr-${shaper}`];
        assert.equal(samples.length, 101);
        assert.equal(reverse, 101, 'a queue at the root of a device is sampled, too');
        samples.forEach((sample, i) => {
          assert.ok(sample['t']! >= i * 1e7 && sample['t']! < i * 1e7 + collectionNs, `sample ${i} at ${sample['t']}`);
          const sent = packets.filter(([, departure]) => departure !== null && departure < sample['t']!).length;
          const inQueue = packets.filter(([arrival, departure]) => arrival < sample['t']! && departure !== null && departure >= sample['t']!).length;
          assert.equal(sample['backlog_packets'], inQueue, `backlog at ${sample['t']}`);
          assert.equal(sample['backlog_bytes'], inQueue * 1014);
          const atStart = samples[0]!['sent_packets']!;
          assert.ok(sample['sent_packets']! - atStart - sent <= 4 && sample['sent_packets']! >= sent, 'all that left, and a few of the router itself');
          assert.equal(sample['drops'], packets.filter(([arrival, departure]) => departure === null && arrival < sample['t']!).length);
        });
      });
    });
  }

  it('records the hash by which fq_codel chooses the queue: of a TCP socket its own, else one of addresses and ports', () => {
    const { findings, text, flows, changed } = phases.hashes;
    assert.deepEqual(findings, []);
    assert.equal(changed, 0, 'a packet has one hash, entering and leaving');
    const hashes = [0, 1].map((flow) => [...new Set(flows.filter(([of]) => of === flow).map(([, hash]) => hash))]);
    assert.deepEqual(hashes.map(({ length }) => length), [1, 1], JSON.stringify(hashes));
    // A queue that is listed shows as a class whose minor is one more than the queue's number (fq_codel_walk).
    const active = [...text.matchAll(/fq_codel 10:([0-9a-f]+)/g)].map(([, minor]) => parseInt(minor!, 16) - 1);
    for (const [hash] of hashes) assert.ok(active.includes(scaleHash(hash!, 1024)), `queue ${scaleHash(hash!, 1024)} is none of ${active.join(', ')}`);
    assert.ok(active.length <= 3, 'and hardly another'); // iperf3's control connection
  });

  for (const kind of ['codel', 'red'] as const) {
    it(`finds the marks of ${kind} from the ECN bits, as many as the queue discipline counts`, () => {
      const { findings, marked, text, samples, arrivals, departures } = phases[kind];
      const counted = Number(/(?:ecn_mark|marked) (\d+)/.exec(text)![1]);
      assert.deepEqual(findings, []);
      assert.ok(counted > 50);
      assert.equal(marked, counted);
      assert.equal(arrivals, departures);
      assert.equal(samples.length, 2, 'without an interval, samples are at the edges of the window');
      near(samples[0]!['t'], 1e8, collectionNs, 'opening edge');
      near(samples[1]!['t'], 2e9, collectionNs, 'closing edge');
      assert.ok(samples[1]!['marks']! > 0 && samples[1]!['marks']! <= counted);
    });
  }

  it("reads CoDel's own state", () => {
    const sample = phases.codel.samples[1]!;
    assert.equal(sample['count'], sample['marks']);
    assert.equal(sample['dropping'], 1);
    assert.equal(sample['maxpacket'], 1014);
    assert.ok(sample['ldelay']! > 100e6, 'ns');
  });

  it('keeps every packet of a TCP flow at 100 Mbit/s, ACKs at the other router included', () => {
    const { bulk } = phases;
    assert.deepEqual(bulk.findings, []);
    assert.ok(bulk.arrivals > 5_000);
    assert.equal(bulk.unpaired, bulk.drops);
    assert.equal(bulk.departures - bulk.strangers, bulk.arrivals - bulk.drops);
    assert.equal(bulk.forward, bulk.identified);
    assert.ok(bulk.arrivals - bulk.unpaired > 0.99 * bulk.identified / 2, 'all but control connections belong to the flow');
    assert.ok(bulk.reverse.arrivals > 2_000);
    assert.equal(bulk.reverse.unpaired, 0);
    assert.equal(bulk.reverse.forward, 0);
    assert.deepEqual([bulk.dictionary.lost, bulk.reverse.dictionary.lost], [0, 0]);
    assert.deepEqual([bulk.dictionary.directions, bulk.reverse.dictionary.directions], [['BL'], ['BL.reverse']]);
  });

  it("reads iperf3's sending socket as ss does at the same instant", () => {
    const { ss, sockets } = phases.bulk;
    const at = sockets.find(({ t }) => t! >= 1e9 && t! < 1e9 + 1e6)!;
    const said = (name: string): number => Number(new RegExp(`[ \\t]${name}[: ](\\d+(?:\\.\\d+)?)`).exec(ss)![1]);
    const [, rtt, rttvar] = /rtt:([\d.]+)\/([\d.]+)/.exec(ss)!;
    near(at['srtt'], Number(rtt) * 1e6, 500, 'srtt');
    near(at['rttvar'], Number(rttvar) * 1e6, 500, 'rttvar');
    near(at['min_rtt'], said('minrtt') * 1e6, 500, 'min_rtt');
    assert.equal(at['cwnd'], said('cwnd'));
    assert.equal(at['ssthresh'], said('ssthresh'));
    assert.equal(at['bytes_acked'], said('bytes_acked'));
    assert.equal(at['in_flight'], said('unacked'));
    assert.equal(at['retransmits'], Number(/retrans:\d+\/(\d+)/.exec(ss)![1]));
    near(at['delivery_rate'], said('delivery_rate'), 8, 'delivery_rate');
    near(at['pacing_rate'], said('pacing_rate'), 8, 'pacing_rate');
    assert.equal(at['state'], 0);
    assert.equal(sockets[0]!['ssthresh'], none.u32, 'absent while infinite');
    assert.ok(sockets.every(({ flow }) => flow === 0));
  });

  it('declares a run invalid whose capture ring was too small', () => {
    const { findings, dictionary } = phases['small-ring'];
    const finding = findings.find(({ rule, message }) => rule === 'capture-lost' && message.startsWith('R1'));
    assert.equal(finding?.level, 'invalid');
    assert.ok(dictionary.lost > 0);
  });

  it('declares a run invalid in which a host left segmentation offload on', () => {
    assert.ok(phases.superpacket.findings.some(({ rule, level }) => rule === 'superpacket' && level === 'invalid'));
  });

  it('measures configured one-way delays exactly, over IPv4 and IPv6', () => {
    for (const id of [0, 2]) {
      const rows = phases.probes.rows.filter(({ probe_id }) => probe_id === id);
      assert.ok(rows.length >= 90);
      rows.forEach((row, i) => {
        assert.equal(row['seq'], i);
        near(row['t'], (id === 0 ? 1e8 : 1.02e8) + i * 1e7, collectionNs, `sent ${i}`);
        near(row['rtt'], row['owd_forward']! + row['owd_reverse']!, 1, `RTT ${i}`);
        near(row['owd_forward'], 5e6, collectionNs, `there ${i}`);
        near(row['owd_reverse'], 20e6, collectionNs, `back ${i}`);
      });
      mostly(rows.map((row) => row['owd_forward']!), 5e6, 2 * clockNs);
      mostly(rows.map((row) => row['owd_reverse']!), 20e6, 2 * clockNs);
    }
    assert.deepEqual(phases.probes.findings, []);
  });

  it("reads the system's ping, and knows probes in captures by their id", () => {
    const rows = phases.probes.rows.filter(({ probe_id }) => probe_id === 1);
    assert.ok(rows.length > 20);
    for (const row of rows) {
      near(row['rtt'], 25e6, 1e5, 'RTT');
      assert.equal(row['owd_forward'], null);
      assert.ok(row['t']! >= 1e8 && row['t']! <= 1e9);
    }
    for (const [flow, least] of [['-1', 91], ['-2', 20], ['-3', 90]] as const) {
      assert.ok(phases.probes.flows!.filter((seen) => seen === `${flow}1false`).length >= least, flow);
      assert.ok(phases.probes.flows!.filter((seen) => seen === `${flow}1true`).length >= least, flow);
    }
  });

  it('records probes lost on the way back, with how long they took there', () => {
    const rows = phases.lossy.rows.filter(({ probe_id }) => probe_id === 0);
    const lost = rows.filter(({ rtt }) => rtt === null);
    assert.equal(rows.length, 191);
    assert.ok(lost.length > 20 && lost.length < 60, `${lost.length} of 191 lost at 20 %`);
    for (const row of lost) near(row['owd_forward'], 0, collectionNs, 'there');
    const pings = phases.lossy.rows.filter(({ probe_id }) => probe_id === 1);
    const lostPings = pings.filter(({ rtt }) => rtt === null).length;
    assert.ok(lostPings > 2 && lostPings < 0.35 * pings.length, `${lostPings} of ${pings.length} pings lost at 20 %`);
    assert.deepEqual(pings.map(({ seq }) => seq), pings.map((_, i) => i));
  });

  it('captures IPv6 the same way', () => {
    const { ipv6 } = phases;
    assert.deepEqual(ipv6.findings, []);
    assert.equal(ipv6.arrivals, 500);
    assert.equal(ipv6.unpaired, ipv6.drops);
    assert.equal(ipv6.identified, 1000 - ipv6.drops);
    assert.ok(ipv6.ecn.includes(1));
    assert.ok(ipv6.sizes.includes(1000));
  });
});
