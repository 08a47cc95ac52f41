/** The disciplines that share by round robin: SFQ, DRR, FQ, HHF; and those that punish unresponsive flows: CHOKe, SFB. */

import assert from 'node:assert/strict';
import type { QueueDiscipline } from './aqm.js';
import { context, create, keyOf, packet, randomSource, refusal, runTimers, stateOf, type TestPacket } from './testing/packets.js';

/** Keeps a backlog of every flow and counts the bytes each sends in `packets` departures. */
function shares(queue: QueueDiscipline, sizes: readonly number[], packets: number): number[] {
  const sent = sizes.map(() => 0);
  const waiting = sizes.map(() => 0);
  for (let n = 0; n < packets; n++) {
    sizes.forEach((size, flow) => {
      for (; waiting[flow]! < 20; waiting[flow]!++) queue.enqueue(packet({ flow, size, flowHash: keyOf(flow) }), n);
    });
    const out = queue.dequeue(n) as TestPacket;
    sent[out.flow]! += out.size;
    waiting[out.flow]!--;
  }
  return sent;
}

describe('round robin', () => {
  for (const [name, params] of [['sfq', { limit: '1000p' }], ['drr', { flows: 1024 }], ['fq', {}], ['fq_codel', { target: '1s', interval: '10s' }], ['fq_pie', {}]] as const) {
    it(`${name} gives flows of large and small packets the same bytes`, () => {
      const sizes = [1514, 1514, 300, 900, 66];
      const sent = shares(create(name, params, context()), sizes, 30_000);
      const mean = sent.reduce((a, b) => a + b) / sent.length;
      // The first packets of FQ pass by its fast path and with the initial credit of ten packets.
      for (const bytes of sent) assert.ok(Math.abs(bytes - mean) < 20 * 1514, `${name}: ${sent}`);
    });
  }

  it('DRR serves in rounds of a quantum', () => {
    const queue = create('drr', { quantum: 3000, flows: 1024 }, context());
    for (let i = 0; i < 6; i++) for (const flow of [1, 2]) queue.enqueue(packet({ flow, size: 1000, flowHash: keyOf(flow) }), 0);
    assert.deepEqual(Array.from({ length: 12 }, () => (queue.dequeue(0) as TestPacket).flow), [1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2]);
  });

  it('SFQ drops from the tail of the longest flow when full, from its head with headdrop', () => {
    for (const [headdrop, lost] of [[false, 99], [true, 0]] as const) {
      const ctx = context();
      const queue = create('sfq', { limit: '110p', headdrop }, ctx);
      for (let seq = 0; seq < 100; seq++) queue.enqueue(packet({ flow: 1, seq, flowHash: keyOf(1) }), 0);
      for (let seq = 0; seq < 11; seq++) queue.enqueue(packet({ flow: 2, seq, flowHash: keyOf(2) }), 0);
      assert.equal(ctx.drops.length, 1);
      assert.deepEqual([ctx.drops[0]!.packet.flow, ctx.drops[0]!.packet.seq], [1, lost]);
    }
  });

  it('SFQ holds at most `depth` packets a flow and 127 by default', () => {
    for (const [params, depth] of [[{ limit: '1000p' }, 127], [{ limit: '1000p', depth: 30 }, 30]] as const) {
      const queue = create('sfq', params, context());
      for (let i = 0; i < 300; i++) queue.enqueue(packet({ flowHash: keyOf(1) }), 0);
      assert.equal(queue.backlogPackets, depth);
    }
  });

  it('SFQ hashes anew every `perturb` and loses nothing that has room', () => {
    const ctx = context();
    const queue = create('sfq', { limit: '1000p', perturb: '10s' }, ctx);
    assert.equal(queue.timerNs, 10e9);
    for (let seq = 0; seq < 40; seq++) for (const flow of [1, 2, 3]) queue.enqueue(packet({ flow, seq, flowHash: keyOf(flow) }), 0);
    runTimers(queue, 30e9);
    assert.equal(queue.timerNs, 40e9);
    assert.equal(queue.backlogPackets + ctx.drops.length, 120);
    assert.equal(ctx.drops.length, 0);
    const last = [-1, -1, -1, -1];
    for (let i = 0; i < 120; i++) {
      const out = queue.dequeue(30e9) as TestPacket;
      assert.ok(out.seq > last[out.flow]!);
      last[out.flow] = out.seq;
    }
    assert.equal(create('sfq', {}, context()).timerNs, Infinity);
  });

  it('SFQ runs RED on each flow with redflowlimit', () => {
    const ctx = context();
    const queue = create('sfq', { limit: '1000p', redflowlimit: '150kB', min: '12kB', max: '36kB', avpkt: '1500B', burst: 20, ecn: true, probability: 0.1 }, ctx);
    for (let n = 0; n < 20_000; n++) {
      queue.enqueue(packet({ flow: 1, ecn: 2, flowHash: keyOf(1) }), n);
      if (n % 50 === 0) queue.enqueue(packet({ flow: 2, ecn: 2, flowHash: keyOf(2) }), n);
      while (queue.backlogPackets > 15) queue.dequeue(n);
    }
    assert.ok(queue.marks > 200);
    const state = stateOf('sfq', queue, 0);
    assert.ok(state['prob_mark']! > 0 && state['prob_drop'] === 0);
  });

  it('FQ limits a flow to flow_limit packets and serves the most urgent band first, but not alone', () => {
    const ctx = context();
    const queue = create('fq', { flow_limit: '50p' }, ctx);
    queue.enqueue(packet({ flow: 9, flowHash: keyOf(9) }), 0);
    for (let i = 0; i < 10; i++) queue.enqueue(packet({ flow: 9, flowHash: keyOf(9) }), 0);
    for (let i = 0; i < 60; i++) queue.enqueue(packet({ flow: 1, flowHash: keyOf(1) }), 0);
    assert.equal(ctx.drops.length, 10);
    assert.ok(ctx.drops.every((drop) => drop.packet.flow === 1));

    // Bulk (DSCP CS1's TOS bits are 0: use DSCP 2) against interactive (DSCP 4), both always waiting: 1 : 9 by their quanta.
    const both = create('fq', { flow_limit: '100000p', limit: '100000p', quantum: 1514 }, context());
    const sent = [0, 0];
    for (let i = 0; i < 20_000; i++) for (const flow of [0, 1]) both.enqueue(packet({ flow, dscp: flow === 0 ? 4 : 2, flowHash: keyOf(flow) }), 0);
    for (let i = 0; i < 20_000; i++) sent[(both.dequeue(0) as TestPacket).flow]!++;
    assert.ok(sent[0]! / sent[1]! > 7 && sent[0]! / sent[1]! < 11, `${sent}`);
  });

  it('FQ paces each flow at maxrate, a quantum at a time, and wakes timer_slack after the flow is due', () => {
    const queue = create('fq', { maxrate: '8mbit', quantum: 3028, initial_quantum: 3028, timer_slack: '10us' }, context());
    for (let i = 0; i < 200; i++) queue.enqueue(packet({ flow: i % 2, flowHash: keyOf(i % 2) }), 1e9);
    const times: [number[], number[]] = [[], []];
    for (let nowNs = 1e9, n = 0; n < 200;) {
      const got = queue.dequeue(nowNs) as TestPacket | null;
      if (got !== null) {
        times[got.flow as 0 | 1].push(nowNs);
        n++;
        continue;
      }
      assert.ok(queue.readyNs > nowNs);
      nowNs = queue.readyNs;
    }
    for (const flow of times) {
      const elapsed = flow[99]! - flow[1]!;
      // 98 packets of 1514 bytes at 1 byte/µs; a late timer is made up for.
      assert.ok(Math.abs(elapsed - 98 * 1514e3) < 30_000, `${elapsed}`);
      assert.equal(new Set(flow).size, 50, 'two at a time');
    }
    assert.ok(stateOf('fq', queue, 2e9)['throttled']! > 90);
  });

  it('FQ holds a packet until its departure time while others pass, keeps their order, and drops or caps beyond the horizon', () => {
    const ctx = context();
    const queue = create('fq', { horizon: '1s', timer_slack: '0us' }, ctx);
    queue.enqueue(packet({ flow: 1, seq: 0, flowHash: keyOf(1), edtNs: 5e6 }), 1e6);
    queue.enqueue(packet({ flow: 1, seq: 1, flowHash: keyOf(1), edtNs: 7e6 }), 1e6);
    assert.equal(queue.dequeue(1e6), null);
    assert.equal(queue.readyNs, 5e6);
    // Nothing may be sent: the fast path is open to what is due.
    queue.enqueue(packet({ flow: 2, flowHash: keyOf(2) }), 2e6);
    assert.equal((queue.dequeue(2e6) as TestPacket).flow, 2);
    // An ACK of the same socket, due now, goes before.
    queue.enqueue(packet({ flow: 1, seq: 2, flowHash: keyOf(1), edtNs: 2e6 }), 3e6);
    assert.equal((queue.dequeue(3e6) as TestPacket).seq, 2);
    assert.equal(queue.dequeue(4e6), null);
    const due = queue.dequeue(5e6) as TestPacket;
    assert.deepEqual([due.seq, due.edtNs], [0, 0]);
    assert.equal(queue.dequeue(5e6), null);
    assert.equal(queue.readyNs, 7e6);
    queue.enqueue(packet({ flow: 3, flowHash: keyOf(3), edtNs: 2e9 }), 6e6);
    assert.equal(ctx.drops.length, 1);
    assert.equal(stateOf('fq', queue, 6e6)['horizon_drops'], 1);
    const capping = create('fq', { horizon: '1s', horizon_drop: false, timer_slack: '0us' }, ctx);
    capping.enqueue(packet({ flow: 3, flowHash: keyOf(3), edtNs: 9e9 }), 1e6);
    assert.equal(capping.dequeue(1e6), null);
    assert.equal(capping.readyNs, 1.001e9);
  });

  it('HHF moves a flow that sends more than admit_bytes aside and serves others at twice its share', () => {
    const queue = create('hhf', { limit: '10000p' }, context());
    const random = randomSource(8);
    for (let n = 0; n < 200; n++) queue.enqueue(packet({ flow: 1, flowHash: keyOf(1) }), n * 1000);
    assert.equal(stateOf('hhf', queue, 0)['hh_tot_count'], 1);
    const sent = [0, 0, 0];
    let next = 100;
    for (let n = 0; n < 3000; n++) {
      // Short flows, each of its own key, always something waiting of both kinds.
      for (let k = 0; k < 2; k++) queue.enqueue(packet({ flow: 2, flowHash: keyOf(next++) }), 1e6 + n * 1e5);
      queue.enqueue(packet({ flow: 1, size: 1514 - (random() % 2), flowHash: keyOf(1) }), 1e6 + n * 1e5);
      if (n < 500) queue.dequeue(1e6 + n * 1e5);
      else sent[(queue.dequeue(1e6 + n * 1e5) as TestPacket).flow]!++;
    }
    assert.ok(Math.abs(sent[2]! / sent[1]! - 2) < 0.3, `${sent}`);
  });

  it('pfifo_fast sends interactive before best effort before bulk', () => {
    const queue = create('pfifo_fast', {}, context());
    for (const dscp of [2, 0, 4, 6]) queue.enqueue(packet({ dscp, seq: dscp }), 0);
    assert.deepEqual(Array.from({ length: 4 }, () => (queue.dequeue(0) as TestPacket).seq), [4, 0, 6, 2]);
  });

  it('refuses what cannot be', () => {
    assert.match(refusal('sfq', { divisor: 1000 }), /divisor: expected a power of two/);
    assert.match(refusal('sfq', { quantum: 0 }), /quantum: /);
    assert.match(refusal('sfq', { min: '3kB' }), /redflowlimit: expected redflowlimit/);
    assert.match(refusal('sfq', { limit: 1 }), /limit: expected at least 2p/);
    assert.match(refusal('drr', { quantum: 0 }), /quantum: /);
    assert.match(refusal('drr', { flows: 1e9 }), /flows: /);
    assert.match(refusal('hhf', { hh_limit: 5000 }), /hh_limit: expected a whole number from 1 to 2048/);
  });
});

describe('unresponsive flows', () => {
  /** Flow 0 sends 20 times as often as each of flows 1 … 5; one packet leaves for two that arrive. @returns the share of what left that is flow 0's */
  function shareOfFlood(queue: QueueDiscipline): number {
    const random = randomSource(13);
    let flood = 0, all = 0;
    for (let n = 0; n < 60_000; n++) {
      const nowNs = n * 300_000;
      runTimers(queue, nowNs);
      const draw = random() % 25;
      const flow = draw < 20 ? 0 : draw - 19;
      queue.enqueue(packet({ flow, flowHash: keyOf(flow) }), nowNs);
      if (n % 2 === 0) {
        const out = queue.dequeue(nowNs) as TestPacket | null;
        if (out === null) continue;
        all++;
        if (out.flow === 0) flood++;
      }
    }
    return flood / all;
  }

  it('keep their share under drop-tail and lose much of it under CHOKe and SFB', () => {
    const tail = shareOfFlood(create('pfifo', { limit: '100p' }, context()));
    assert.ok(Math.abs(tail - 0.8) < 0.02, `drop-tail ${tail}`);
    const choke = shareOfFlood(create('choke', { limit: '300p', min: '30p', max: '100p' }, context()));
    assert.ok(choke < 0.68, `CHOKe ${choke}`);
    const sfb = shareOfFlood(create('sfb', { increment: 0.005 }, context()));
    assert.ok(sfb < 0.7, `SFB ${sfb}`);
  });

  it('CHOKe drops the arrival and a waiting packet of the same flow', () => {
    const ctx = context();
    const queue = create('choke', { limit: '400p', min: '3p', max: '9p', burst: 4, probability: 0.000001 }, ctx);
    for (let i = 0; i < 40 && ctx.drops.length === 0; i++) queue.enqueue(packet({ flow: 1, seq: i, flowHash: keyOf(1) }), i);
    assert.equal(ctx.drops.length, 2);
    assert.equal(stateOf('choke', queue, 0)['matched'], 1);
    assert.match(refusal('choke', { limit: '100p', min: '50p', max: '40p' }), /min: expected min below max/);
  });

  it('SFB holds a flow at full marking probability to penalty_rate', () => {
    const ctx = context();
    const queue = create('sfb', { limit: '1000p', increment: 1, penalty_rate: 10, penalty_burst: 5 }, ctx);
    for (let i = 0; i < 24; i++) queue.enqueue(packet({ flowHash: keyOf(1) }), 0);
    const held = stateOf('sfb', queue, 0);
    assert.equal(held['maxprob'], 1);
    assert.ok(held['maxqlen']! <= 25);
    while (queue.backlogPackets > 21) queue.dequeue(1);
    const admittedOf = (attempts: number, everyNs: number, startNs: number): number => {
      let admitted = 0;
      for (let n = 0; n < attempts; n++) {
        const waiting = queue.backlogPackets;
        queue.enqueue(packet({ flowHash: keyOf(1) }), startNs + n * everyNs);
        if (queue.backlogPackets === waiting) continue;
        admitted++;
        queue.dequeue(startNs + n * everyNs);
      }
      return admitted;
    };
    assert.equal(admittedOf(40, 200e6, 1e9), 40);
    // As in the kernel every refused attempt starts the wait for a token anew: who hammers gets nothing.
    assert.ok(admittedOf(2000, 1e6, 20e9) <= 6);
    assert.ok(stateOf('sfb', queue, 0)['penaltydrop']! > 1900);
  });
});
