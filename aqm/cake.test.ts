import assert from 'node:assert/strict';
import type { QueueDiscipline } from './aqm.js';
import { tinPlan } from './cake-tins.js';
import { context, create, keyOf, kindOf, packet, randomSource, refusal, stateOf, type TestPacket } from './testing/packets.js';

/** Takes packets as fast as the shaper allows until `count` came. @returns the time of the last */
function drain(queue: QueueDiscipline, count: number, startNs: number, seen: (out: TestPacket, nowNs: number) => void = () => {}): number {
  let nowNs = startNs;
  for (let n = 0; n < count; ) {
    const out = queue.dequeue(nowNs) as TestPacket | null;
    if (out !== null) {
      seen(out, nowNs);
      n++;
    } else {
      assert.ok(queue.readyNs > nowNs && Number.isFinite(queue.readyNs));
      nowNs = queue.readyNs;
    }
  }
  return nowNs;
}

function fill(queue: QueueDiscipline, count: number, fields: Partial<TestPacket>, nowNs = 0): void {
  for (let i = 0; i < count; i++) queue.enqueue(packet({ seq: i, ...fields }), nowNs);
}

describe('CAKE', () => {
  it('shapes to its bandwidth, counting what the framing adds', () => {
    const secondsFor = (params: Record<string, unknown>, size: number): number => {
      const queue = create('cake', { bandwidth: '10mbit', besteffort: true, rtt: '100s', ...params }, context());
      fill(queue, 1001, { size, flowHash: keyOf(1) });
      return drain(queue, 1001, 0) / 1e9;
    };
    const close = (seconds: number, bytes: number): void => assert.ok(Math.abs(seconds - (1000 * bytes * 8) / 10e6) < 1e-5, `${seconds} s for ${bytes} bytes`);
    close(secondsFor({}, 1514), 1514);
    // From the IP packet: 1500 + 38.
    close(secondsFor({ ethernet: true }, 1514), 1538);
    close(secondsFor({ ethernet: true }, 54), 84);
    close(secondsFor({ overhead: 22 }, 114), 122);
    // ATM: 48 bytes of payload in cells of 53. 1500 + 40 = 1540 → 33 cells.
    close(secondsFor({ overhead: 40, atm: true }, 1514), 33 * 53);
    // PTM: a byte for every 64.
    close(secondsFor({ 'pppoe-ptm': true }, 1514), 1530 + 24);
    close(secondsFor({ raw: true }, 1514), 1514);
    close(secondsFor({ mpu: 100 }, 66), 100);
  });

  it('does not shape without bandwidth', () => {
    const queue = create('cake', {}, context());
    fill(queue, 100, { flowHash: keyOf(1) });
    assert.equal(drain(queue, 100, 5), 5);
    assert.equal(queue.readyNs, Infinity);
  });

  it('shares between hosts first, then between the flows of a host', () => {
    for (const [mode, field, hosts] of [['dual-srchost', 'srcHash', 'src'], ['dual-dsthost', 'dstHash', 'dst'], ['triple-isolate', 'srcHash', 'src'], ['flows', 'srcHash', 'none']] as const) {
      const queue = create('cake', { besteffort: true, [mode]: true, rtt: '100s' }, context());
      // Host 1 has 6 flows, host 2 has 2.
      for (let flow = 0; flow < 8; flow++) fill(queue, 900, { flow, flowHash: keyOf(flow), ...(mode === 'triple-isolate' ? { dstHash: keyOf(200 + flow) } : {}), [field]: keyOf(flow < 6 ? 101 : 102) });
      const sent = [0, 0];
      drain(queue, 3000, 1, (out) => sent[out.flow < 6 ? 0 : 1]!++);
      const ratio = sent[0]! / sent[1]!;
      if (hosts === 'none') assert.ok(Math.abs(ratio - 3) < 0.15, `${mode}: ${sent}`);
      else assert.ok(Math.abs(ratio - 1) < 0.12, `${mode}: ${sent}`);
    }
  });

  it('keeps eight flows apart whose keys fall into one set, where a plain hash would mix them', () => {
    const queue = create('cake', { besteffort: true, flows: true, rtt: '100s' }, context());
    for (let flow = 0; flow < 8; flow++) fill(queue, 200, { flow, flowHash: 40 + 1024 * (flow + 1) });
    const sent = new Array<number>(8).fill(0);
    drain(queue, 800, 1, (out) => sent[out.flow]!++);
    for (const n of sent) assert.ok(Math.abs(n - 100) <= 2, `${sent}`);
    // The ninth must share one.
    for (let flow = 0; flow < 9; flow++) fill(queue, 200, { flow, flowHash: 40 + 1024 * (flow + 1) });
    drain(queue, 1200, 1);
  });

  it('treats all as one flow when flowblind', () => {
    const queue = create('cake', { besteffort: true, flowblind: true }, context());
    for (let i = 0; i < 20; i++) queue.enqueue(packet({ seq: i, flow: i % 3, flowHash: keyOf(i % 3) }), 0);
    let next = 0;
    drain(queue, 20, 1, (out) => assert.equal(out.seq, next++));
  });

  it('puts codepoints into the tins of its documentation (tc-cake(8))', () => {
    const tins = (mode: string | undefined, dscps: readonly number[]): number[] => dscps.map((dscp) => tinPlan(mode).index[dscp]!);
    const [LE, CS1, CS0, TOS4, CS2, CS3, CS4, CS5, CS6, CS7, VA, EF, AF11, AF21, AF31, AF41] = [1, 8, 0, 4, 16, 24, 32, 40, 48, 56, 44, 46, 10, 18, 26, 34] as const;
    assert.deepEqual(tins(undefined, [LE, CS1, CS0, AF11, AF41, CS4, CS5, TOS4, VA, EF, CS6, CS7]), [1, 1, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2]);
    assert.deepEqual(tins('diffserv4', [LE, CS1, CS0, AF11, TOS4, CS2, CS3, AF21, AF31, AF41, CS4, CS5, VA, EF, CS6, CS7]), [1, 1, 0, 0, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3]);
    assert.deepEqual(tins('diffserv8', [LE, AF11, CS1, CS0, AF41, AF31, CS3, TOS4, AF21, CS2, EF, VA, CS5, CS4, CS6, CS7]), [0, 1, 1, 2, 3, 3, 3, 4, 4, 5, 6, 6, 6, 6, 7, 7]);
    assert.deepEqual(tins('precedence', [CS0, CS1, CS7, EF]), [0, 1, 7, 5]);
    assert.deepEqual(tins('besteffort', [CS0, CS7]), [0, 0]);
  });

  it('serves the latency tin at once while it keeps to its share of the rate, and bulk last', () => {
    const queue = create('cake', { bandwidth: '20mbit', diffserv4: true, rtt: '100s' }, context());
    for (let i = 0; i < 400; i++) for (const [flow, dscp] of [[0, 0], [1, 8]] as const) queue.enqueue(packet({ flow, dscp, flowHash: keyOf(flow) }), 0);
    const sent = [0, 0, 0];
    let nowNs = drain(queue, 200, 0, (out) => sent[out.flow]!++);
    // Best effort may use all the rate, bulk 1/16 of it when others wait.
    assert.ok(sent[0]! > 170 && sent[1]! >= 8, `${sent}`);
    for (let i = 0; i < 30; i++) {
      queue.enqueue(packet({ flow: 2, size: 200, dscp: 46, flowHash: keyOf(2) }), nowNs);
      let first: TestPacket | null = null;
      nowNs = drain(queue, 1, nowNs, (out) => (first = out));
      assert.equal(first!.flow, 2);
      nowNs = drain(queue, 4, nowNs);
    }
  });

  it('shares by the weights of the tins when unlimited', () => {
    const queue = create('cake', { diffserv3: true, rtt: '100s' }, context());
    for (let i = 0; i < 1500; i++) for (const [flow, dscp] of [[0, 0], [1, 8], [2, 46]] as const) queue.enqueue(packet({ flow, dscp, flowHash: keyOf(flow) }), 0);
    const sent = [0, 0, 0];
    drain(queue, 1680, 1, (out) => sent[out.flow]!++);
    // 1024 : 64 : 256
    assert.ok(Math.abs(sent[0]! - 1280) < 40 && Math.abs(sent[1]! - 80) < 20 && Math.abs(sent[2]! - 320) < 20, `${sent}`);
  });

  it('filters ACKs that later ones make superfluous, and no others', () => {
    for (const [word, kept] of [['no-ack-filter', 20], ['ack-filter', 2], ['ack-filter-aggressive', 1]] as const) {
      const ctx = context();
      const queue = create('cake', { bandwidth: '1mbit', [word]: true }, ctx);
      for (let i = 0; i < 20; i++) queue.enqueue(packet({ seq: i, size: 66, pureAck: true, ackNumber: 1000 * i, flowHash: keyOf(1) }), i);
      assert.equal(queue.backlogPackets, kept, word);
      assert.ok(ctx.drops.every((drop) => drop.reason === 'filter'));
      let last = -1;
      while (queue.backlogPackets > 0) drain(queue, 1, 1e9, (out) => (last = out.ackNumber));
      assert.equal(last, 19_000);
    }
    const ctx = context();
    const queue = create('cake', { bandwidth: '1mbit', 'ack-filter-aggressive': true }, ctx);
    // Duplicate ACKs signal loss; data and other flows' ACKs are not touched; sequence numbers wrap.
    for (let i = 0; i < 6; i++) queue.enqueue(packet({ size: 66, pureAck: true, ackNumber: 7000, flowHash: keyOf(1) }), i);
    for (let i = 0; i < 6; i++) queue.enqueue(packet({ flowHash: keyOf(2) }), i);
    assert.equal(ctx.drops.length, 0);
    queue.enqueue(packet({ size: 66, pureAck: true, ackNumber: 0xfffffff0, flowHash: keyOf(3) }), 9);
    queue.enqueue(packet({ size: 66, pureAck: true, ackNumber: 100, flowHash: keyOf(3) }), 9);
    assert.equal(ctx.drops.length, 1);
    assert.equal(ctx.drops[0]!.packet.ackNumber, 0xfffffff0);
  });

  it('drops from the longest queue when over memlimit', () => {
    const ctx = context();
    const queue = create('cake', { besteffort: true, bandwidth: '1mbit', memlimit: '200kB' }, ctx);
    fill(queue, 10, { flow: 2, flowHash: keyOf(2) });
    fill(queue, 300, { flow: 1, flowHash: keyOf(1) });
    assert.ok(ctx.drops.length > 200);
    assert.ok(ctx.drops.every((drop) => drop.reason === 'overload' && drop.packet.flow === 1));
    assert.ok(queue.backlogPackets * (1514 + 766) <= 200_000);
    assert.ok(stateOf('cake', queue, 0)['memory_used']! <= 200_000 + 1514 + 766);
  });

  it('signals a standing queue: marks what can be marked, drops the rest', () => {
    for (const ecn of [0, 2]) {
      const ctx = context();
      const queue = create('cake', { besteffort: true }, ctx);
      for (let ms = 0; ms < 3000; ms++) {
        queue.enqueue(packet({ ecn, flowHash: keyOf(1) }), ms * 1e6);
        if (ms >= 50) queue.dequeue(ms * 1e6);
      }
      assert.equal(queue.marks > 0, ecn === 2);
      assert.equal(ctx.drops.length > 0, ecn === 0);
    }
  });

  it('washes the DSCP after it chose the tin, and refuses contradictions', () => {
    const queue = create('cake', { wash: true }, context());
    queue.enqueue(packet({ dscp: 46, ecn: 1, flowHash: keyOf(1) }), 0);
    const out = queue.dequeue(1)!;
    assert.deepEqual([out.dscp, out.ecn], [0, 1]);
    assert.equal(stateOf('cake', queue, 1)['tin2_sent'], 1);
    assert.match(refusal('cake', { diffserv3: true, diffserv4: true }), /expected only one of diffserv3, diffserv4/);
    assert.match(refusal('cake', { overhead: 1000 }), /overhead: expected a whole number from -64 to 256/);
  });

  it('with autorate-ingress shapes to 15/16 of what arrives between pauses, as cake_enqueue() estimates it', () => {
    const queue = create('cake', { bandwidth: '100mbit', 'autorate-ingress': true }, context());
    // Trains of 64 packets of 1514 bytes at 20 Mbit/s, then 5 ms of nothing: the pause ends the window.
    let nowNs = 1e9;
    const gapNs = (1514 * 8e9) / 20e6;
    let average = 0, peak = 100e6 / 8, bytes = 0, begin = -Infinity, last = -Infinity;
    const ewma = (old: number, sample: number, shift: number): number => Number(BigInt(old) - (BigInt(old) >> BigInt(shift)) + (BigInt(sample) >> BigInt(shift)));
    for (let train = 0; train < 1500; train++) {
      for (let i = 0; i < 64; i++) {
        queue.enqueue(packet({ flowHash: keyOf(1) }), nowNs);
        // The same in the kernel's integers.
        const interval = Math.min(nowNs - last, 1e9);
        average = ewma(average, Math.floor(interval), interval > average ? 2 : 8);
        last = nowNs;
        bytes += 1514;
        if (interval > average) {
          const rate = Number.isFinite(begin) ? Math.floor((bytes * 1e9) / (nowNs - begin)) : 0;
          peak = ewma(peak, rate, rate > peak ? 2 : 8);
          bytes = 0;
          begin = nowNs;
        }
        while (queue.dequeue(nowNs) !== null);
        nowNs += gapNs;
      }
      nowNs += 5e6;
    }
    const estimate = stateOf('cake', queue, nowNs)['capacity_estimate']!;
    assert.equal(estimate, peak * 8);
    // 64 packets in 64 gaps and 5 ms: 17.7 Mbit/s, approached by a 256th at a time from 100.
    const true_ = (64 * 1514 * 8e9) / (64 * gapNs + 5e6);
    assert.ok(estimate > true_ && estimate < 1.02 * true_, `${estimate} for ${true_}`);
    // The shaper runs at 15/16 of it.
    for (let i = 0; i < 200; i++) queue.enqueue(packet({ flowHash: keyOf(2) }), nowNs);
    // First what the shaper owes for the last pause.
    nowNs += drainFor(queue, nowNs, 50).ns;
    const { sent, ns } = drainFor(queue, nowNs, 100);
    const ratio = (sent * 1514 * 8e9) / ns / ((stateOf('cake', queue, nowNs)['capacity_estimate']! * 15) / 16);
    assert.ok(ratio > 0.97 && ratio < 1.03, `${ratio}`);
  });

  it('heeds every keyword of tc-cake(8): each changes what becomes of the same packets, but for the defaults and what has no meaning here', () => {
    const silent = new Set([
      // tc's defaults
      'unlimited', 'internet', 'diffserv3', 'triple-isolate', 'nowash', 'no-ack-filter', 'egress', 'noatm', 'raw', 'nonat', 'split-gso',
      // neither conntrack, nor marks, nor GSO
      'nat', 'no-split-gso', 'fwmark',
    ]);
    const values: Record<string, unknown> = { bandwidth: '5mbit', rtt: '20ms', memlimit: '40000B', fwmark: 3, overhead: 40, mpu: 200 };
    const trace = (params: Record<string, unknown>): string => {
      const ctx = context({ randomU32: randomSource(3) });
      const queue = create('cake', { ...('unlimited' in params || 'bandwidth' in params ? {} : { bandwidth: '20mbit' }), ...params }, ctx);
      const random = randomSource(9);
      const out: string[] = [];
      let nowNs = 1e9;
      for (let n = 0; n < 12_000; n++) {
        const flow = random() % 12, ack = flow >= 9;
        const dscp = [0, 8, 10, 46, 2, 34, 4, 16, 48, 1, 0, 26][flow]!;
        queue.enqueue(packet({ flow, seq: n, size: ack ? 66 : 1514, dscp, ecn: flow % 3, flowHash: keyOf(flow), srcHash: keyOf(100 + (flow % 2)), dstHash: keyOf(200 + (flow % 5)), pureAck: ack, ackNumber: ack ? n * 1448 : 0 }), nowNs);
        nowNs += 450_000;
        for (let got = queue.dequeue(nowNs) as TestPacket | null; got !== null; got = queue.dequeue(nowNs) as TestPacket | null) {
          out.push(`${got.seq} ${got.dscp} ${got.ecn}`);
          if (out.length > n) break;
        }
      }
      return out.concat(ctx.drops.map((drop) => `${drop.packet.seq} ${drop.reason}`)).join();
    };
    const usual = trace({});
    for (const key of Object.keys(kindOf('cake').schema.shape)) {
      if (key === 'unlimited') continue; // compared below: it is the default where there is no bandwidth
      const changed = trace({ [key]: values[key] ?? true }) !== usual;
      assert.equal(changed, !silent.has(key), `${key} ${changed ? 'changes something' : 'changes nothing'}`);
    }
    assert.notEqual(trace({ unlimited: true }), usual);
  });
});

/** Takes out so many packets. @returns how long that took */
function drainFor(queue: QueueDiscipline, startNs: number, count: number): { sent: number; ns: number } {
  let nowNs = startNs, sent = 0, firstNs = 0;
  for (let tries = 0; sent < count && tries < 100_000; tries++) {
    if (queue.dequeue(nowNs) === null) {
      nowNs = queue.readyNs;
      continue;
    }
    if (sent++ === 0) firstNs = nowNs;
  }
  return { sent: sent - 1, ns: nowNs - firstNs };
}
