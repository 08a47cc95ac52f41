/** For tests of disciplines that decide at random: a random source whose next value the test chooses, and two ways to see a probability. */

import type { DropReason, QueueDiscipline } from '../aqm.js';
import { context, packet, type TestContext, type TestPacket } from './packets.js';

/** The random source returns `value` until it is changed: 0 makes every chance come true, 0xffffffff none but a certain one. */
export interface Dial {
  value: number;
}
export const NEVER = 0xffffffff, ALWAYS = 0;

export function dialled(fields: Parameters<typeof context>[0] = {}): { dial: Dial; ctx: TestContext } {
  const dial: Dial = { value: NEVER };
  return { dial, ctx: context({ randomU32: () => dial.value, ...fields }) };
}

/** Enqueues one packet. @returns what became of it */
export function offer(queue: QueueDiscipline, ctx: TestContext, nowNs: number, fields: Partial<TestPacket> = {}): 'queued' | 'marked' | DropReason {
  const made = packet({ size: 1500, ...fields });
  const before = ctx.drops.length;
  queue.enqueue(made, nowNs);
  if (ctx.drops.length > before) return ctx.drops[ctx.drops.length - 1]!.reason;
  return made.marked ? 'marked' : 'queued';
}

/**
 * The probability with which the next arrival is dropped by the algorithm, to 2^-32: bisects the random value.
 * @param prepare makes a queue, always the same, whose next arrival is the one asked about
 */
export function probabilityOf(prepare: () => { queue: QueueDiscipline; ctx: TestContext; dial: Dial; nowNs: number }, fields: Partial<TestPacket> = {}): number {
  const hit = (value: number): boolean => {
    const { queue, ctx, dial, nowNs } = prepare();
    dial.value = value;
    const outcome = offer(queue, ctx, nowNs, fields);
    return outcome === 'aqm' || outcome === 'marked';
  };
  if (!hit(0)) return 0;
  if (hit(NEVER)) return 1;
  let low = 0, high = NEVER;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (hit(middle)) low = middle;
    else high = middle;
  }
  return high / 2 ** 32;
}

/** Enqueues until exactly `backlog` packets wait, taking out what is too much. */
export function fill(queue: QueueDiscipline, backlog: number, fields: Partial<TestPacket> = {}, nowNs = 0): void {
  for (let tries = 0; queue.backlogPackets < backlog; tries++) {
    if (tries > 1e6) throw new Error(`a backlog of ${backlog} cannot be reached`);
    queue.enqueue(packet({ size: 1500, ...fields }), nowNs);
  }
  while (queue.backlogPackets > backlog) queue.dequeue(nowNs);
}

/** Keeps `backlog` packets waiting while `arrivals` come. @returns which arrivals were dropped or marked, counted from 0 */
export function hold(queue: QueueDiscipline, ctx: TestContext, backlog: number, arrivals: number, fields: (i: number) => Partial<TestPacket> = () => ({}), startNs = 0): number[] {
  fill(queue, backlog, fields(0), startNs);
  const signals: number[] = [];
  for (let i = 0; i < arrivals; i++) {
    ctx.drops.length = 0;
    if (offer(queue, ctx, startNs + i, fields(i)) !== 'queued') signals.push(i);
    if (queue.backlogPackets > backlog) queue.dequeue(startNs + i);
  }
  return signals;
}

/** Intervals between signals. */
export const intervals = (signals: readonly number[]): number[] => signals.slice(1).map((at, i) => at - signals[i]!);

/**
 * Chi-square of whole numbers against the uniform distribution on from … to.
 * With 19 degrees of freedom it exceeds 43.8 once in a thousand.
 */
export function chiSquareUniform(values: readonly number[], from: number, to: number): number {
  const bins = new Array<number>(to - from + 1).fill(0);
  for (const value of values) {
    if (value < from || value > to) return Infinity;
    bins[value - from]!++;
  }
  const expected = values.length / bins.length;
  return bins.reduce((sum, n) => sum + (n - expected) ** 2 / expected, 0);
}

/** Mean interval between signals of RED with count correction: the sum over n of the chance 1 − n p_b that none came in n arrivals. */
export function meanInterval(pb: number): number {
  let sum = 0;
  for (let n = 0; n * pb < 1; n++) sum += 1 - n * pb;
  return sum;
}
