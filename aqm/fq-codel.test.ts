import assert from 'node:assert/strict';
import { scaleHash } from './integer.js';
import { codelPeriod } from './codel-core.js';
import { FqCodelOracle } from './testing/fq-codel-oracle.js';
import { context, create, keyOf, packet, randomSource, refusal, stateOf, type TestPacket } from './testing/packets.js';

describe('FQ-CoDel', () => {
  it('gives every flow the same share of bytes, whatever its packet size', () => {
    const queue = create('fq_codel', { limit: 100_000 }, context());
    const sizes = [1514, 700, 300, 1000];
    for (let i = 0; i < 1500; i++) sizes.forEach((size, flow) => queue.enqueue(packet({ flow, size, flowHash: keyOf(flow) }), 0));
    const sent = [0, 0, 0, 0];
    for (let i = 0; i < 2000; i++) {
      const out = queue.dequeue(1000) as TestPacket;
      sent[out.flow]! += out.size;
    }
    const mean = sent.reduce((a, b) => a + b) / 4;
    for (const bytes of sent) assert.ok(Math.abs(bytes - mean) <= 2 * 1514, `${sent}`);
  });

  it('sends the packet of a sparse flow before those of flows that wait', () => {
    const queue = create('fq_codel', {}, context());
    for (let i = 0; i < 50; i++) queue.enqueue(packet({ flow: 1, flowHash: keyOf(1) }), 0);
    queue.dequeue(0);
    queue.dequeue(0);
    queue.enqueue(packet({ flow: 2, size: 100, flowHash: keyOf(2) }), 0);
    assert.equal((queue.dequeue(0) as TestPacket).flow, 2);
  });

  it('drops up to 64 packets, half its backlog, from the fattest flow when over its limit', () => {
    const ctx = context();
    const queue = create('fq_codel', { limit: 200 }, ctx);
    for (let i = 0; i < 150; i++) queue.enqueue(packet({ flow: 1, seq: i, flowHash: keyOf(1) }), 0);
    for (let i = 0; i < 50; i++) queue.enqueue(packet({ flow: 2, seq: i, flowHash: keyOf(2) }), 0);
    assert.equal(ctx.drops.length, 0);
    queue.enqueue(packet({ flow: 2, seq: 50, flowHash: keyOf(2) }), 0);
    assert.equal(ctx.drops.length, 64);
    assert.ok(ctx.drops.every((drop, i) => drop.reason === 'overload' && drop.packet.flow === 1 && drop.packet.seq === i));
    assert.equal(stateOf('fq_codel', queue, 0)['drop_overlimit'], 64);
    assert.equal(queue.backlogPackets, 137);
  });

  it('drops one packet and not its whole queue after a batch drop in the first second and a half of a clock that began at 0', () => {
    const ctx = context();
    const queue = create('fq_codel', { limit: 200 }, ctx);
    for (let i = 0; i < 201; i++) queue.enqueue(packet({ flowHash: keyOf(1) }), 0);
    const batch = ctx.drops.length;
    assert.equal(queue.backlogPackets, 201 - batch);
    // Above target from 50 ms on, so the first of CoDel's own drops comes at the first departure after 150 ms.
    for (let ms = 50; ms <= 160; ms += 2) queue.dequeue(ms * 1e6);
    assert.equal(ctx.drops.length - batch, 1);
  });

  it('layer 1: sends, drops and marks as an independent FQ-CoDel does, packet by packet', () => {
    for (const [seed, params] of [[1, {}], [2, { quantum: 300, target: '2ms', interval: '30ms' }], [3, { limit: 150, drop_batch: 16 }], [4, { ecn: false, quantum: 3000 }]] as const) {
      const ctx = context();
      const queue = create('fq_codel', { flows: 16, ...params }, ctx);
      const given = params as { quantum?: number; limit?: number; drop_batch?: number; ecn?: boolean; target?: string };
      const oracle = new FqCodelOracle({
        flows: 16, quantum: given.quantum ?? 1514, limit: given.limit ?? 10240, batch: given.drop_batch ?? 64, ecn: given.ecn ?? true, mtu: 1514,
        target: BigInt(codelPeriod(given.target === undefined ? 5e6 : 2e6)), interval: BigInt(codelPeriod(given.target === undefined ? 100e6 : 30e6)),
      });
      const random = randomSource(seed);
      const marked: number[] = [];
      // From 10 s on: a kernel, and so the oracle, has been up for a while.
      let nowNs = 10e9, id = 0, arrivals = 1.2;
      for (let step = 0; step < 30_000; step++) {
        if (step % 1500 === 0) arrivals = [0.8, 1.05, 1.6, 2.5][random() % 4]!;
        nowNs += 300_000 + (random() % 600_000);
        for (let n = Math.floor(arrivals) + (random() / 2 ** 32 < arrivals % 1 ? 1 : 0); n > 0; n--) {
          // Flows of unequal weight: low numbers send more.
          const flow = Math.min(random() % 16, random() % 16, random() % 16), size = random() % 5 === 0 ? 66 : 1514, ect = random() % 3 !== 0;
          queue.enqueue(packet({ seq: id, size, ecn: ect ? 2 : 0, flowHash: (flow + 0.5) * 2 ** 28 }), nowNs);
          oracle.enqueue({ id: id++, ns: nowNs, size, ect, flow });
        }
        const out = queue.dequeue(nowNs) as TestPacket | null;
        if (out?.marked) marked.push(out.seq);
        assert.equal(out === null ? null : out.seq, oracle.dequeue(nowNs), `seed ${seed}, step ${step}`);
      }
      assert.deepEqual(ctx.drops.map((drop) => drop.packet.seq), oracle.dropped);
      assert.deepEqual(marked, oracle.marked);
      assert.ok(oracle.dropped.length > 100, `${oracle.dropped.length} drops`);
      assert.ok(given.ecn === false || marked.length > 50, `${marked.length} marks`);
    }
  });

  it('stops a batch at half of the fat flow', () => {
    const ctx = context();
    const queue = create('fq_codel', { limit: 20 }, ctx);
    for (let i = 0; i < 21; i++) queue.enqueue(packet({ flowHash: keyOf(1) }), 0);
    assert.equal(ctx.drops.length, 11);
  });

  it('drops when over its memory limit, counting more than the bytes of a packet', () => {
    const ctx = context();
    const queue = create('fq_codel', { memory_limit: 100_000, limit: 10_000 }, ctx);
    let packets = 0;
    while (ctx.drops.length === 0) {
      queue.enqueue(packet({ flowHash: keyOf(1) }), 0);
      packets++;
    }
    assert.equal(packets, Math.floor(100_000 / (1514 + 766)) + 1);
    assert.ok(stateOf('fq_codel', queue, 0)['drop_overmemory']! > 0);
  });

  it('marks by default, where CoDel drops', () => {
    const ctx = context();
    const queue = create('fq_codel', { limit: 10_000 }, ctx);
    for (let ms = 0; ms < 400; ms++) {
      for (const half of [0, 0.5]) queue.enqueue(packet({ ecn: 2, flowHash: keyOf(1) }), (ms + half) * 1e6);
      queue.dequeue((ms + 1) * 1e6);
    }
    assert.equal(ctx.drops.length, 0);
    assert.ok(queue.marks > 3);
  });

  it('marks above ce_threshold only what ce_threshold_selector selects', () => {
    const queue = create('fq_codel', { ce_threshold: '1ms', ce_threshold_selector: '0x01/0x03' }, context());
    queue.enqueue(packet({ ecn: 1, flowHash: keyOf(1) }), 0);
    queue.enqueue(packet({ ecn: 2, flowHash: keyOf(1) }), 0);
    assert.equal(queue.dequeue(3e6)!.marked, true);
    assert.equal(queue.dequeue(3e6)!.marked, false);
  });

  it('spreads flows over its queues as reciprocal_scale() does', () => {
    assert.equal(scaleHash(0xffffffff, 1024), 1023);
    assert.equal(scaleHash(0, 1024), 0);
    assert.equal(scaleHash(0x80000000, 65536), 32768);
  });

  it('refuses a quantum of 0, a billion flows and a target of 0', () => {
    assert.match(refusal('fq_codel', { quantum: 0 }), /quantum: /);
    assert.match(refusal('fq_codel', { flows: 1e9 }), /flows: expected a whole number from 1 to 65536/);
    assert.match(refusal('fq_codel', { target: '0s' }), /target: expected a target of at least 1us/);
  });
});
