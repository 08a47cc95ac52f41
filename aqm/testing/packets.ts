/** For tests of disciplines: packets, a seeded random source, and a context that remembers what was dropped. */

import type { AqmContext, AqmKind, DropReason, QueueDiscipline, QueuedPacket } from '../aqm.js';
import { perturbHash } from '../integer.js';
import { aqms } from '../registry.js';

export interface TestPacket extends QueuedPacket {
  flow: number;
  /** Order within its flow. */
  seq: number;
}

export function packet(fields: Partial<TestPacket> = {}): TestPacket {
  return {
    size: 1514, ecn: 0, marked: false, flowHash: 0, srcHash: 0, dstHash: 0, dscp: 0, pureAck: false, datagram: false, ackNumber: 0, edtNs: 0, enqueueNs: 0, next: null, flow: 0, seq: 0,
    ...fields,
  };
}

/** Mixes a small number into a u32 as a flow key would be. */
export const keyOf = (flow: number): number => perturbHash(flow, 0x9e3779b9);

/** xorshift32 (Marsaglia 2003). */
export function randomSource(seed: number): () => number {
  let state = (seed | 0) || 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state >>> 0;
  };
}

export interface TestContext extends AqmContext {
  readonly drops: { packet: TestPacket; reason: DropReason; nowNs: number }[];
}

export function context(fields: Partial<AqmContext> = {}): TestContext {
  const drops: TestContext['drops'] = [];
  return {
    randomU32: randomSource(1),
    drop: (dropped, reason, nowNs) => drops.push({ packet: dropped as TestPacket, reason, nowNs }),
    mtuBytes: 1514,
    rateBps: 20e6,
    ...fields,
    drops,
  };
}

export function kindOf(name: string): AqmKind {
  const kind = aqms.get(name);
  if (kind === undefined) throw new Error(`no discipline ${name}`);
  return kind;
}

/** Creates it from parameters as a user writes them. */
export function create(name: string, params: Record<string, unknown>, ctx: AqmContext, startNs = 0): QueueDiscipline {
  const kind = kindOf(name);
  return kind.create(kind.schema.parse(params) as Record<string, number | boolean | string>, ctx, startNs);
}

/** The message of the first thing the schema refuses. */
export function refusal(name: string, params: Record<string, unknown>): string {
  const result = kindOf(name).schema.safeParse(params);
  if (result.success) throw new Error(`${name} accepted ${JSON.stringify(params)}`);
  const issue = result.error.issues[0]!;
  return `${issue.path.join('.')}: ${issue.message}`;
}

/** Runs timers up to and including `nowNs`. */
export function runTimers(queue: QueueDiscipline, nowNs: number): void {
  while (queue.timerNs <= nowNs) queue.tick(queue.timerNs);
}

export function stateOf(name: string, queue: QueueDiscipline, nowNs: number): Record<string, number> {
  const { state } = kindOf(name);
  const values = new Float64Array(state.length);
  queue.readState(values, nowNs);
  return Object.fromEntries(state.map((column, i) => [column, values[i]!]));
}
