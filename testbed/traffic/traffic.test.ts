import assert from 'node:assert/strict';
import type { FlowRow } from '../records/raw.js';
import { guestResult, needsGuest } from '../testing/guest.js';
import type { DumbbellOptions } from '../testing/dumbbell-network.js';
import { addresses } from '../testing/dumbbell-network.js';

interface Outcome { readonly code: number; readonly statistics: string; readonly wire: string; readonly files: Readonly<Record<string, string>> }
const script = new URL('../testing/traffic.guest.js', import.meta.url);
const run = (options: DumbbellOptions): Promise<Outcome> => guestResult<Outcome>(script, { args: [JSON.stringify(options)], memoryMiB: 1024, timeoutS: 300 });

/** The last line for each flow counts. */
const rowsOf = (outcome: Outcome): FlowRow[] => {
  const rows = new Map<number, FlowRow>();
  for (const line of outcome.files['flows.jsonl']!.trim().split('\n')) {
    const row = JSON.parse(line) as FlowRow;
    rows.set(row.id, row);
  }
  return [...rows.values()].sort((a, b) => a.id - b.id);
};
const findings = (outcome: Outcome): string[] => outcome.files['agent.jsonl']!.split('\n').filter((line) => line.includes('"finding"'));

const ms = 1e6;
const s = 1e9;
const dumbbell: DumbbellOptions = { rateBps: 20e6, rttNs: 50 * ms, queue: 'pfifo limit 1000', warmupNs: 1 * s, durationNs: 1 * s, flows: [] };
/** Serialisation of a full frame at 20 Mbit/s: 1514 bytes. */
const frame = (1514 * 8e9) / 20e6;
/** Of a bare ACK, SYN aside: 66 bytes. */
const ack = (66 * 8e9) / 20e6;
const ipv6 = { srcAddress: addresses[6].a, dstAddress: addresses[6].b };

describe('the built-in generator, on a real kernel in virtual time', function () {
  this.timeout(600_000);
  before(needsGuest);

  it('measures flow completion times that theory gives on an unloaded path, to 20 µs', async () => {
    const outcome = await run({
      ...dumbbell,
      durationNs: 3 * s,
      flows: [
        { bytes: 100 }, // resolves the link addresses
        { bytes: 7240, startNs: 1 * s }, // 5 segments
        { bytes: 60000, startNs: 2 * s }, // 42 segments: rounds of 10, 20 and 12 (initial window 10, RFC 6928)
      ],
    });
    assert.equal(outcome.code, 0);
    const [, five, fortyTwo] = rowsOf(outcome) as [FlowRow, FlowRow, FlowRow];
    const near = (measured: number, theory: number, what: string): void => assert.ok(Math.abs(measured - theory) < 20_000, `${what}: ${measured} ns, theory ${theory} ns`);
    near(five.t_connected! - five.t_start!, 50 * ms, 'handshake');
    // Handshake and one round. HTB lets a frame follow its burst of one, so the FIN behind five frames waits for four and the handshake's ACK.
    near(five.t_end! - five.t_start!, 100 * ms + 4 * frame + ack, 'five segments');
    // Handshake and three rounds; of the twelve frames of the last round the FIN rides on the last, behind ten more than the burst.
    near(fortyTwo.t_end! - fortyTwo.t_start!, 200 * ms + 10 * frame, '42 segments');
    assert.deepEqual([five.status, five.bytes, five.retransmits, five.bytes_sent, five.packets_sent], ['complete', 7240, 0, 7240, 5]);
    assert.deepEqual([five.bytes_at_warmup, five.bytes_at_end], [0, 7240]);
  });

  it('fills a 20 Mbit/s bottleneck with four flows, its figures at the edges of the window agree with the link, and no receive window holds a sender back', async () => {
    const outcome = await run({ ...dumbbell, queue: 'fq_codel', warmupNs: 5 * s, durationNs: 15 * s, flows: [{}, { cc: 'reno' }, {}, { ...ipv6 }] });
    assert.equal(outcome.code, 0);
    assert.deepEqual(findings(outcome), []);
    const rows = rowsOf(outcome);
    assert.deepEqual(rows.map(({ status }) => status), Array(4).fill('running'));
    const goodput = (rows.reduce((sum, row) => sum + row.bytes_at_end! - row.bytes_at_warmup!, 0) * 8) / 15;
    const utilisation = goodput / ((20e6 * 1448) / 1514);
    assert.ok(utilisation >= 0.95 && utilisation <= 1.001, `utilisation ${utilisation}`);
    for (const row of rows) {
      assert.ok(row.bytes_at_warmup! > 0 && row.bytes_at_warmup! < row.bytes_at_end! && row.bytes_at_end === row.bytes, JSON.stringify(row));
      assert.ok(row.retransmits_at_warmup! <= row.retransmits_at_end!);
      assert.ok(row.bytes_sent! >= row.bytes!, 'sent includes what was retransmitted or still under way');
    }
  });

  it('writes chunks at their times on one connection, is idle in between, and closes at its stop time', async () => {
    const chunks = [[0.5 * s, 100_000], [1.2 * s, 7], [1.5 * s, 300_000]] as const;
    // The second starts with a chunk before it is connected, and is cut by the end of the run.
    const outcome = await run({ ...dumbbell, durationNs: 2 * s, flows: [{ kind: 'chunks', chunks, startNs: 0.5 * s, stopNs: 2.5 * s }, { kind: 'chunks', chunks: [[1 * s, 5000], [1.01 * s, 5000]], startNs: 1 * s }] });
    assert.equal(outcome.code, 0);
    assert.deepEqual(findings(outcome), []);
    const [first, second] = rowsOf(outcome) as [FlowRow, FlowRow];
    assert.deepEqual([first.status, first.bytes, first.bytes_at_warmup, first.retransmits], ['complete', 400_007, 100_000, 0]);
    assert.ok(first.t_end! > 2.5 * s && first.t_end! < 2.56 * s, `a round trip after it closed, at ${first.t_end}`);
    assert.deepEqual([second.status, second.bytes, second.t_end], ['running', 10_000, null]);
  });

  it('opens the receive window as far as the path needs although receivers wait for 256 KiB', async () => {
    // 50 Mbit/s × 200 ms and 1000 packets of queue: 2.7 MB in flight, near what tcp_rmem's 6 MB can hold. A window
    // held down by the low-water mark would cap this near 256 KiB an RTT.
    const outcome = await run({ ...dumbbell, rateBps: 50e6, rttNs: 200 * ms, queue: 'pfifo limit 1000', warmupNs: 4 * s, durationNs: 6 * s, flows: [{}] });
    const [row] = rowsOf(outcome) as [FlowRow];
    const goodput = ((row.bytes_at_end! - row.bytes_at_warmup!) * 8) / 6;
    assert.ok(goodput > 0.9 * ((50e6 * 1448) / 1514), `${goodput} bit/s`);
    const limits = JSON.parse(outcome.files['agent.jsonl']!.split('\n').find((line) => line.includes('receiveWindow')) ?? '{}') as { receiveWindow?: { limitedNs: number } };
    // Of 10 s; the kernel counts a few tens of ms.
    assert.ok(limits.receiveWindow !== undefined && limits.receiveWindow.limitedNs <= 0.01 * 10 * s, `limited by the receive window for ${limits.receiveWindow?.limitedNs} ns`);
  });

  it('sends exactly the datagrams a constant bit rate asks for and counts each that arrives', async () => {
    const udp = { transport: 'udp', kind: 'cbr', rateBps: 64000, packetBytes: 200, dstPort: 30000 } as const;
    const outcome = await run({
      ...dumbbell, warmupNs: 2 * s, durationNs: 8 * s,
      flows: [udp, { ...udp, ...ipv6 }, { ...udp, rateBps: 7e6, packetBytes: 1500, startNs: 0.5 * s, stopNs: 9 * s, dstPort: 30001 }],
    });
    assert.equal(outcome.code, 0);
    const [four, six, fast] = rowsOf(outcome) as [FlowRow, FlowRow, FlowRow];
    assert.deepEqual([four.packets_sent, four.packets_lost, four.bytes, four.bytes_sent], [400, 0, 400 * 172, 400 * 172]);
    assert.deepEqual([six.packets_sent, six.packets_lost, six.bytes], [400, 0, 400 * 152]);
    assert.deepEqual([four, six, fast].map((row) => row.packets_duplicated), [0, 0, 0]);
    // 8.5 s / (1500 × 8 / 7e6 s) = 4958.3: the first at once, so 4959; an interval that is no whole number of ns must not drift.
    assert.deepEqual([fast.packets_sent, fast.packets_lost, fast.status, fast.t_end], [4959, 0, 'complete', 9 * s]);
    assert.ok(Math.abs(four.bytes_at_warmup! / 172 - 80) <= 1, `${four.bytes_at_warmup}`);
  });

  it('counts what a queue drops of a constant bit rate that exceeds the link', async () => {
    const outcome = await run({ ...dumbbell, queue: 'pfifo limit 10', flows: [{ bytes: 100 }, { transport: 'udp', kind: 'cbr', rateBps: 40e6, packetBytes: 1500, startNs: 1 * s, dstPort: 30000 }] });
    const [, row] = rowsOf(outcome) as [FlowRow, FlowRow];
    const dropped = Number(/qdisc pfifo.*?dropped (\d+)/s.exec(outcome.statistics)![1]);
    assert.ok(row.packets_lost! > 1000, `${row.packets_lost}`);
    assert.equal(row.packets_lost, dropped);
    assert.equal(row.packets_sent, Math.ceil((1 * s) / ((1500 * 8e9) / 40e6)));
  });

  it('counts each datagram once on a path that duplicates, reorders and loses, as netem counts them', async () => {
    const backwards = { transport: 'udp', kind: 'cbr', src: 'b', dst: 'a', srcAddress: addresses[4].b, dstAddress: addresses[4].a, stopNs: 2 * s } as const;
    const options = {
      ...dumbbell, warmupNs: 1 * s, durationNs: 1.5 * s,
      flows: [{ ...backwards, rateBps: 8e6, packetBytes: 500, dstPort: 30000 }, { ...backwards, rateBps: 64e3, packetBytes: 64, dstPort: 30001 }],
    };
    const counted = async (wire: NonNullable<DumbbellOptions['wire']>): Promise<{ lost: number; copies: number; netemDropped: number }> => {
      const outcome = await run({ ...options, wire });
      assert.equal(outcome.code, 0, outcome.files['agent.jsonl']);
      assert.deepEqual(findings(outcome), []);
      const rows = rowsOf(outcome) as [FlowRow, FlowRow];
      assert.deepEqual(rows.map((row) => row.packets_sent), [4000, 250]);
      for (const [row, payload] of [[rows[0], 472], [rows[1], 36]] as const) {
        assert.equal(row.bytes, (row.packets_sent! - row.packets_lost!) * payload);
        assert.ok(row.bytes_at_warmup! > 0 && row.bytes_at_warmup! < row.bytes!, JSON.stringify(row));
      }
      const sum = (of: (row: FlowRow) => number): number => rows.reduce((total, row) => total + of(row), 0);
      const [, left, netemDropped] = /Sent \d+ bytes (\d+) pkt \(dropped (\d+)/.exec(outcome.wire)!.map(Number) as [number, number, number];
      const [lost, copies] = [sum((row) => row.packets_lost!), sum((row) => row.packets_duplicated!)];
      const others = left - (4250 - lost + copies); // ARP, neighbour discovery
      assert.ok(others >= 0 && others <= 10, `${others} packets more than datagrams left netem`);
      return { lost, copies, netemDropped };
    };
    const withCopies = await counted({ duplicate: 0.1, loss: 0.05, reorder: 0.2 });
    // 4 standard deviations. netem duplicates or loses a packet, not both; a copy may be lost in its turn (sch_netem.c).
    assert.ok(Math.abs(withCopies.copies - 4250 * 0.1 * 0.95 * 0.95) < 80, `${withCopies.copies} copies`);
    assert.ok(Math.abs(withCopies.lost - 4250 * 0.05 * 0.9) < 60, `${withCopies.lost} lost`);
    assert.ok(withCopies.netemDropped - withCopies.lost >= 0 && withCopies.netemDropped - withCopies.lost < 45, `${withCopies.netemDropped} dropped, ${withCopies.lost} of them datagrams without a copy`);
    const without = await counted({ loss: 0.05, reorder: 0.2 });
    assert.deepEqual([without.copies, without.lost], [0, without.netemDropped]);
  });

  it('refuses datagrams too small to carry their number', async () => {
    const outcome = await run({ ...dumbbell, flows: [{ transport: 'udp', kind: 'cbr', ...ipv6, rateBps: 64e3, packetBytes: 55, dstPort: 30000 }] });
    assert.equal(outcome.code, 1);
    assert.match(findings(outcome).join(), /flow 0 \(test\): packets of 55 bytes are too small.*at least 56B/);
  });

  it('is silent between the bursts of an on-off flow', async () => {
    const bursts = [[0.2 * s, 0.5 * s], [1.2 * s, 1.25 * s]] as const;
    const outcome = await run({ ...dumbbell, flows: [{ transport: 'udp', kind: 'onoff', rateBps: 1e6, packetBytes: 500, bursts, startNs: 0.2 * s, dstPort: 30000 }] });
    const [row] = rowsOf(outcome) as [FlowRow];
    // 4 ms a datagram: 75 in 300 ms and 13 in 50 ms (at 0, 4, … 48 ms)
    assert.deepEqual([row.packets_sent, row.packets_lost], [75 + 13, 0]);
    assert.equal(row.bytes_at_warmup, 75 * 472);
    assert.equal(row.t_end, 1.25 * s);
  });

  it('completes 500 short flows beside 200 concurrent bulk flows, with every byte', async () => {
    const short = Array.from({ length: 500 }, (_, i) => ({ kind: 'short', bytes: 20000 + i, startNs: 0.5 * s + i * 15 * ms, srcPort: 40000 + i, dstPort: 8000 }) as const);
    const bulk = Array.from({ length: 200 }, (_, i) => ({ srcPort: 20000 + i, startNs: i * ms }));
    const outcome = await run({ ...dumbbell, rateBps: 100e6, queue: 'fq_codel flows 4096', warmupNs: 2 * s, durationNs: 12 * s, flows: [...short, ...bulk] });
    assert.equal(outcome.code, 0);
    assert.deepEqual(findings(outcome), []);
    const rows = rowsOf(outcome);
    assert.equal(rows.length, 700);
    for (const row of rows.slice(0, 500)) assert.deepEqual([row.status, row.bytes, row.error], ['complete', 20000 + row.id, null]);
    for (const row of rows.slice(500)) assert.ok(row.status === 'running' && row.bytes_at_end! > row.bytes_at_warmup!, JSON.stringify(row));
  });

  it('ends a flow at its stop time: what is buffered arrives, then the flow is complete', async () => {
    const outcome = await run({ ...dumbbell, flows: [{ stopNs: 1 * s }] });
    const [row] = rowsOf(outcome) as [FlowRow];
    assert.equal(row.status, 'complete');
    assert.ok(row.t_end! > 1 * s && row.t_end! < 2 * s);
    assert.ok(row.bytes! > 1e6 && row.bytes_at_end === row.bytes);
  });

  it('says why a flow failed', async () => {
    const outcome = await run({ ...dumbbell, flows: [{ cc: 'nosuch' }, { bytes: 1000, srcAddress: '10.9.9.9' }, { startNs: 5 * s }] });
    const [cc, address, never] = rowsOf(outcome) as [FlowRow, FlowRow, FlowRow];
    assert.match(cc.error!, /no congestion control "nosuch"/);
    assert.match(address.error!, /EADDRNOTAVAIL/);
    assert.deepEqual([never.status, never.t_start], ['not-started', null]);
  });

  it('tells a flow that started too late to be connected from one that nobody answered', async () => {
    // The queue has room for ARP and for no SYN. Of three flows, one has sent five SYNs by the end.
    const outcome = await run({ ...dumbbell, queue: 'bfifo limit 60', warmupNs: 1 * s, durationNs: 6 * s, flows: [{}, { startNs: 2.5 * s }, { startNs: 6.9 * s, stopNs: 6.95 * s }] });
    const [unanswered, late, stopped] = rowsOf(outcome) as [FlowRow, FlowRow, FlowRow];
    assert.deepEqual([unanswered.status, unanswered.error], ['failed', 'no answer to its SYNs for 7.0 s, until the run ended']);
    for (const row of [late, stopped]) assert.deepEqual([row.status, row.error, row.t_connected, row.t_end, row.bytes], ['running', null, null, null, 0]);
  });

  it('refuses to run when two listeners need the same port of a host, and says which', async () => {
    const outcome = await run({ ...dumbbell, flows: [{ dstPort: 9000 }, { dstPort: 9000, dstAddress: '0.0.0.0' }] });
    assert.equal(outcome.code, 1);
    assert.match(findings(outcome).join(), /port-taken.*flow 1.*port 9000 of b/s);
    assert.equal(findings(outcome).length, 1);
  });

  it('gives byte-identical records twice', async () => {
    const options: DumbbellOptions = {
      ...dumbbell, queue: 'fq_codel', warmupNs: 1 * s, durationNs: 4 * s,
      flows: [{}, { cc: 'bbr' }, { bytes: 60000, startNs: 1.5 * s }, { transport: 'udp', kind: 'cbr', rateBps: 64000, packetBytes: 200, dstPort: 30000 }],
    };
    const [first, second] = [await run(options), await run(options)];
    assert.equal(first.files['flows.jsonl'], second.files['flows.jsonl']);
    assert.equal(first.files['agent.jsonl'], second.files['agent.jsonl']);
    assert.equal(first.statistics, second.statistics);
  });
});

describe('iperf3 as a traffic tool, on a real kernel in virtual time', function () {
  this.timeout(600_000);
  before(needsGuest);

  it('keeps both ends\' output and agrees with the kernel about the window', async () => {
    const iperf3 = { tool: 'iperf3' } as const;
    const outcome = await run({
      ...dumbbell, rateBps: 5e6, warmupNs: 1 * s, durationNs: 2 * s,
      flows: [{ ...iperf3, dstPort: 9000 }, { ...iperf3, ...ipv6, dstPort: 9001, startNs: 0.25 * s, stopNs: 2.5 * s }, { ...iperf3, transport: 'udp', kind: 'cbr', rateBps: 200e3, packetBytes: 500, dstPort: 9002 }],
    });
    assert.equal(outcome.code, 0, outcome.files['agent.jsonl']);
    assert.deepEqual(findings(outcome), []);
    const [bulk, stopped, udp] = rowsOf(outcome) as [FlowRow, FlowRow, FlowRow];
    for (const id of [0, 1, 2]) for (const end of ['client', 'server']) assert.match(outcome.files[`iperf3-${id}-${end}.json`]!, /"start":/);
    assert.equal(bulk.status, 'running');
    assert.equal(stopped.status, 'complete');
    const goodput = ((bulk.bytes_at_end! - bulk.bytes_at_warmup! + stopped.bytes_at_end! - stopped.bytes_at_warmup!) * 8) / 2;
    assert.ok(goodput > 3.5e6 && goodput < 5e6, `${goodput} bit/s`);
    assert.ok(bulk.retransmits !== null && bulk.retransmits_at_warmup !== null);
    assert.deepEqual([udp.packets_sent, udp.packets_lost], [150, 0]);
  });

  it('reports a server that cannot listen with its own message', async () => {
    const outcome = await run({ ...dumbbell, flows: [{ dstPort: 9000 }, { tool: 'iperf3', dstPort: 9000 }] });
    const [, row] = rowsOf(outcome) as [FlowRow, FlowRow];
    assert.equal(row.status, 'failed');
    assert.match(row.error!, /in use/i);
    assert.match(findings(outcome).join(), /iperf3-failed/);
  });
});
