/** What must hold for every discipline in the registry, whatever its parameters and whatever happens to it. */

import assert from 'node:assert/strict';
import fc from 'fast-check';
import { UserError } from '../testbed/errors.js';
import { qdiscs } from '../testbed/qdiscs/registry.js';
import type { AqmKind, QueueDiscipline } from './aqm.js';
import { changeQueue } from './change.js';
import { aqms } from './registry.js';
import { context, keyOf, packet, randomSource, runTimers, type TestContext, type TestPacket } from './testing/packets.js';

/** Whose change of parameters may give a flow another queue, which what comes after it then overtakes: CAKE's tins and hosts, fq's orphan_mask. */
const MAY_MOVE_FLOWS = new Set(['cake', 'fq']);
/** A flow whose packets may change queues, and so their order, by the algorithm itself: one that becomes a heavy hitter. */
const MAY_REORDER = new Set(['hhf']);

/** DOCSIS-PIE's probability is that of 1024 bytes and may exceed 1 (RFC 8034, appendix A). */
const PER_REFERENCE_PACKET = new Set(['docsis-pie']);

/** Values of every sort a parameter can have, as a user writes them; each field takes those its schema accepts. */
const VALUES: readonly unknown[] = [
  true, false, '1ms', '5ms', '20ms', '100ms', '1s', '10s', 1, 2, 4, 7, 16, 50, 64, 100, 300, 1000, '3p', '20p', '200p', '300B', '1514B', '3028B', '9kB', '60kB', '1MB',
  0.002, 0.02, 0.1, 0.5, 1, '2%', '50%', '500kbit', '5mbit', '100mbit', '0x1/0x3',
];

function candidatesOf(kind: AqmKind): ReadonlyMap<string, readonly unknown[]> {
  return new Map(Object.entries(kind.schema.shape).map(([key, field]) => {
    const schema = field as { safeParse(value: unknown): { success: boolean } };
    return [key, VALUES.filter((value) => schema.safeParse(value).success)];
  }));
}

type Params = Record<string, number | boolean | string>;

/** Valid random parameters and what `make` makes of them. Fewer parameters are set the longer none fit together. */
function withRandom<T>(kind: AqmKind, candidates: ReadonlyMap<string, readonly unknown[]>, random: () => number, make: (params: Params) => T): T {
  for (let attempt = 0; attempt < 200; attempt++) {
    const share = 0.6 / (1 + attempt / 10);
    const given: Record<string, unknown> = {};
    for (const [key, values] of candidates) {
      if (values.length > 0 && random() / 2 ** 32 < share) given[key] = values[random() % values.length];
    }
    const parsed = kind.schema.safeParse(given);
    if (!parsed.success) continue;
    try {
      return make(parsed.data as Params);
    } catch (error) {
      // What depends on the link, such as RED's burst, is refused when it is created.
      if (!(error instanceof UserError)) throw error;
    }
  }
  throw new Error(`no valid parameters found for ${kind.kind}`);
}

const operation = fc.oneof(
  { weight: 5, arbitrary: fc.record({ op: fc.constant('enqueue' as const), flow: fc.nat(11), size: fc.constantFrom(66, 66, 120, 600, 1514, 1514, 1514), burst: fc.integer({ min: 1, max: 40 }) }) },
  { weight: 5, arbitrary: fc.record({ op: fc.constant('dequeue' as const), times: fc.integer({ min: 1, max: 30 }) }) },
  { weight: 2, arbitrary: fc.record({ op: fc.constant('peek' as const) }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant('change' as const) }) },
  { weight: 3, arbitrary: fc.record({ op: fc.constant('wait' as const), ns: fc.constantFrom(1, 700, 50_000, 1_211_200, 1_211_200, 16_000_000, 130_000_000, 1_500_000_000) }) },
);

class Ledger {
  inside = new Set<TestPacket>();
  bytes = 0;
  markedPackets = 0;
  /** Of each flow and time between changes. */
  private readonly lastOut = new Map<string, number>();
  /** The changes of such a discipline before a packet came. */
  private readonly changesBefore = new WeakMap<TestPacket, number>();
  private changes = 0;
  private readonly nextSeq = new Map<number, number>();

  constructor(private readonly kind: AqmKind, public queue: QueueDiscipline, private readonly ctx: TestContext) {}

  enqueue(flow: number, size: number, nowNs: number): void {
    const seq = this.nextSeq.get(flow) ?? 0;
    this.nextSeq.set(flow, seq + 1);
    const isAck = flow >= 9;
    const made = packet({
      flow, seq, size: isAck ? 66 : size, flowHash: keyOf(flow), srcHash: keyOf(1000 + (flow % 3)), dstHash: keyOf(2000 + (flow % 4)),
      ecn: flow % 4, dscp: [0, 8, 10, 46, 2, 34][flow % 6]!, pureAck: isAck, datagram: flow === 3, ackNumber: isAck ? seq * 2896 : 0,
    });
    this.inside.add(made);
    this.changesBefore.set(made, this.changes);
    this.bytes += made.size;
    this.queue.enqueue(made, nowNs);
    // A FIFO's head, only looked at, may be what an arrival drops.
    this.peeked = undefined;
    this.settle();
  }

  /** @returns whether a packet came. */
  dequeue(nowNs: number): boolean {
    const seen = this.peeked;
    this.peeked = undefined;
    const out = this.queue.dequeuePeeked(nowNs) as TestPacket | null;
    if (seen !== undefined) assert.equal(out, seen, 'what was seen is what comes');
    if (out !== null) {
      this.leave(out, 'returned');
      assert.equal(out.next, null, 'a packet that left is linked to nothing');
      if (!MAY_REORDER.has(this.kind.kind)) {
        const among = `${out.flow} after ${this.changesBefore.get(out)!}`;
        assert.ok(out.seq > (this.lastOut.get(among) ?? -1), `flow ${out.flow} keeps its order`);
        this.lastOut.set(among, out.seq);
      }
    }
    this.settle();
    if (out === null && this.queue.backlogPackets > 0) {
      assert.ok(Number.isFinite(this.queue.readyNs) && this.queue.readyNs > nowNs, 'null with a backlog says when to ask again');
    }
    return out !== null;
  }

  private peeked: TestPacket | null | undefined;
  /** Looks at the next packet; one that was chosen counts on. */
  peek(nowNs: number): void {
    const seen = this.queue.peek(nowNs) as TestPacket | null;
    this.settle();
    assert.equal(this.queue.peek(nowNs), seen);
    this.peeked = seen === null ? undefined : seen;
  }

  /** New parameters. */
  change(candidates: ReadonlyMap<string, readonly unknown[]>, random: () => number, nowNs: number): void {
    const { flows: _, divisor: __, ...changeable } = Object.fromEntries(candidates);
    const marks = this.queue.marks;
    const before = this.queue;
    if (MAY_MOVE_FLOWS.has(this.kind.kind)) this.changes++;
    this.queue = withRandom(this.kind, new Map(Object.entries(changeable)), random, (params) => changeQueue(before, this.kind, params, this.ctx, nowNs));
    if (this.queue !== before) this.markedBefore += marks;
    this.peeked = undefined;
    this.settle();
  }
  private markedBefore = 0;
  get marks(): number { return this.markedBefore + this.queue.marks; }

  private leave(gone: TestPacket, how: string): void {
    assert.ok(this.inside.delete(gone), `a packet was ${how} that is not inside`);
    this.bytes -= gone.size;
    if (gone.marked) {
      this.markedPackets++;
      assert.equal(gone.ecn, 3);
      assert.ok(gone.flow % 4 === 1 || gone.flow % 4 === 2, 'only ECT packets are marked');
    }
  }

  private settle(): void {
    for (const { packet: dropped } of this.ctx.drops.splice(0)) this.leave(dropped, 'dropped');
    assert.equal(this.queue.backlogPackets, this.inside.size);
    assert.equal(this.queue.backlogBytes, this.bytes);
  }

  /** After a time-out a discipline may have dropped from inside tick. */
  timers(nowNs: number): void {
    runTimers(this.queue, nowNs);
    assert.ok(this.queue.timerNs > nowNs);
    this.settle();
  }
}

describe('every discipline', () => {
  for (const kind of aqms.values()) {
    const candidates = candidatesOf(kind);

    it(`${kind.kind} conserves packets, keeps flows in order, and says when to ask again`, function () {
      this.timeout(60_000);
      fc.assert(
        fc.property(fc.integer(), fc.array(operation, { minLength: 1, maxLength: 60 }), (seed, operations) => {
          const random = randomSource(seed);
          const ctx = context({ randomU32: randomSource(seed ^ 0x5bd1e995) });
          const ledger = new Ledger(kind, withRandom(kind, candidates, random, (params) => kind.create(params, ctx, 0)), ctx);
          let nowNs = 0;
          for (const step of operations) {
            ledger.timers(nowNs);
            if (step.op === 'wait') nowNs += step.ns;
            else if (step.op === 'peek') ledger.peek(nowNs);
            else if (step.op === 'change') ledger.change(candidates, random, nowNs);
            else if (step.op === 'enqueue') for (let i = 0; i < step.burst; i++) ledger.enqueue(step.flow, step.size, nowNs);
            else for (let i = 0; i < step.times; i++) ledger.dequeue(nowNs);
          }
          const { queue } = ledger;
          const state = new Float64Array(kind.state.length);
          queue.readState(state, nowNs);
          kind.state.forEach((column, i) => {
            // NaN stands for what there is none of, such as CAKE's fourth tin.
            assert.ok(Number.isFinite(state[i]) || (kind.kind === 'cake' && column.startsWith('tin')), `${column} is ${state[i]}`);
            if (column === 'max_p' || (column === 'prob' && !PER_REFERENCE_PACKET.has(kind.kind))) assert.ok(state[i]! >= 0 && state[i]! <= 1, `${column} is ${state[i]}`);
          });
          for (let i = 0; queue.backlogPackets > 0; i++) {
            assert.ok(i < 1e5, 'it can be emptied');
            ledger.timers(nowNs);
            if (!ledger.dequeue(nowNs) && queue.backlogPackets > 0) nowNs = queue.readyNs;
          }
          assert.ok(ledger.marks >= ledger.markedPackets);
          // Memory held by an empty queue: none. (CAKE reports the most it ever held.)
          queue.readState(state, nowNs);
          const memory = kind.state.findIndex((column) => column === 'memory_usage' || column === 'memory_used');
          if (memory >= 0 && kind.kind !== 'cake') assert.equal(state[memory], 0);
        }),
        { numRuns: 60 },
      );
    });

    it(`${kind.kind} does the same again with the same seed, however often its state is read`, () => {
      const state = new Float64Array(kind.state.length);
      const run = (readEvery: number): string => {
        const ctx = context({ randomU32: randomSource(77) });
        const queue = withRandom(kind, candidates, randomSource(5), (params) => kind.create(params, ctx, 0));
        const log: string[] = [];
        for (let i = 0; i < 600; i++) {
          const nowNs = i * 400_000;
          runTimers(queue, nowNs);
          if (i % readEvery === 0) queue.readState(state, nowNs);
          queue.enqueue(packet({ flow: i % 7, seq: i, flowHash: keyOf(i % 7), ecn: i % 3 }), nowNs);
          if (i % 2 === 0) log.push(String((queue.dequeue(nowNs) as TestPacket | null)?.seq));
        }
        return log.concat(ctx.drops.map((drop) => `${drop.packet.seq}${drop.reason}`)).join();
      };
      const once = run(Infinity);
      assert.equal(run(Infinity), once);
      assert.equal(run(1), once);
    });

    it(`${kind.kind} refuses a parameter it does not know`, () => {
      assert.equal(kind.schema.safeParse({ nonsense: 1 }).success, false);
    });
  }

  it('takes the parameters and has the state columns of the kernel qdisc of that name', () => {
    for (const kind of aqms.values()) {
      const qdisc = qdiscs.get(kind.kind);
      if (qdisc === undefined) continue;
      assert.deepEqual(Object.keys(kind.schema.shape).sort(), Object.keys(qdisc.schema.shape).sort(), kind.kind);
      assert.deepEqual(kind.state.slice(0, qdisc.state.length), qdisc.state, kind.kind);
    }
  });

  it('exists for every kernel qdisc that can be a bottleneck queue', () => {
    const containers = ['htb', 'tbf', 'netem', 'prio'];
    assert.deepEqual([...qdiscs.keys()].filter((kind) => !aqms.has(kind) && !containers.includes(kind)), []);
  });
});
