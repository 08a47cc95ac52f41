/**
 * A kernel's decisions in place of chance (Chance, aqm/aqm.ts). What the kernel drew is not known, what it did is: so ours is given its
 * decision wherever chance decides, follows its path in everything else, and says which probability each packet faced.
 *
 * Given the probabilities the kernel's decisions are independent, so the number of signals has the mean sum(p) and the variance
 * sum(p (1 − p)) (a martingale, as p depends on the past). It must lie within 3.29 standard deviations (99.9 % of runs do), also among
 * the packets of each decile of the probabilities' range, there within 4.06 (99.995 %, so 99.95 % for ten together). Where many runs are
 * judged together each has its share of these 0.1 % (Bonferroni): else one of a thousand that agree would be out of place.
 */

import type { Chance, QueuedPacket } from '../../aqm/aqm.js';
import { ARRIVED_CE, MARKED, MATCHED, SENT, TAKEN, type KernelFates } from './fates.js';
import type { ReplayPacket } from './packet.js';

/** How often a run that agrees is taken not to, and one of its deciles. */
const falseAlarm = 0.001, decileFalseAlarm = 0.00005;

/**
 * What the z of one of `tests` runs that are judged together may be, so that one of them all is beyond it by chance once in a thousand times.
 * 3.29 of one, 4.89 of a thousand.
 */
export const zBound = (tests = 1, alarm = falseAlarm): number => {
  let [low, high] = [2, 20];
  for (let i = 0; i < 60; i++) {
    const middle = (low + high) / 2;
    if (2 * normalTail(middle) > alarm / tests) low = middle;
    else high = middle;
  }
  return low;
};
/** Of one run. */
export const zLimit = zBound();

/** P(Z > z) of a standard normal Z, z ≥ 2: Laplace's continued fraction (Abramowitz and Stegun 26.2.14). */
function normalTail(z: number): number {
  let fraction = z;
  for (let k = 60; k > 0; k--) fraction = z + k / fraction;
  return Math.exp((-z * z) / 2) / Math.sqrt(2 * Math.PI) / fraction;
}

/** One sort of decision by chance, summed up. */
export interface Tally {
  /** Decisions. */
  readonly asked: number;
  /** Of them the kernel's yes, and what the probabilities add up to. */
  readonly happened: number;
  readonly expected: number;
  /** Standard deviation of that number. */
  readonly deviation: number;
  /** (happened − expected) / deviation */
  readonly z: number;
  /** The largest of the same by decile of the probabilities. */
  readonly worstDecileZ: number;
}

/** What is decided by chance: drops and marks; dropped although it could be marked; met its like; the turn came a byte or more early or late; was given a used queue. */
export const tallyNames = ['signals', 'drops', 'matches', 'turns', 'reused'] as const;
export type TallyName = (typeof tallyNames)[number];

export interface ChanceOutcome {
  readonly tallies: Readonly<Partial<Record<TallyName, Tally>>>;
  /** Decisions that left no trace, or of which the record fits several. */
  readonly hidden: number;
  /** Of them those for which the likelier was taken, where the other is no less than possible. */
  readonly taken: number;
  /** Natural logarithm of the probability of all that was decided. */
  readonly logLikelihood: number;
}

/**
 * Few events are no normal distribution: more of them than expected are judged by Poisson's, whose tail is the longer.
 * @param tests runs that are judged together
 */
export const tallyAgrees = ({ z, worstDecileZ, happened, expected, deviation }: Tally, tests = 1): boolean =>
  (Math.abs(z) <= zBound(tests) || (z > 0 && deviation ** 2 < 10 && poissonTail(Math.ceil(happened), expected) >= falseAlarm / 2 / tests)) && Math.abs(worstDecileZ) <= zBound(tests, decileFalseAlarm);

/** P(at least `n`) */
function poissonTail(n: number, mean: number): number {
  let below = 0;
  for (let i = 0, one = Math.exp(-mean); i < n; i++, one *= mean / i) below += one;
  return 1 - below;
}

/** What is less likely is not tried. */
const leastLikely = 1e-3;

/** Of an event that cannot be, so that one such does not outweigh all others. */
const leastProbability = 1e-12;

interface Bin { n: number; happened: number; expected: number; variance: number }
const zOf = ({ happened, expected, variance }: Bin): number => {
  const difference = happened - expected;
  return variance > 1e-9 ? difference / Math.sqrt(variance) : Math.abs(difference) < 1e-6 ? 0 : difference * Infinity;
};

class Counter {
  private readonly bins: Bin[] = Array.from({ length: 10 }, () => ({ n: 0, happened: 0, expected: 0, variance: 0 }));

  logLikelihood = 0;

  /** @param scale deciles are of 0 … this */
  constructor(private readonly scale: number) {}

  add(probability: number, happened: boolean, times = 1): void {
    const bin = this.bins[Math.min(9, Math.floor((probability * 10) / this.scale))]!;
    bin.n += times;
    bin.expected += times * probability;
    bin.variance += times * probability * Math.max(0, 1 - probability); // a sum of shares may come out an ulp above 1
    if (happened) bin.happened += times;
    this.logLikelihood += times * Math.log(Math.max(leastProbability, happened ? probability : 1 - probability));
  }

  /** null: nothing was ever asked. */
  sum(): Tally | null {
    const { bins } = this;
    const total = bins.reduce((sum, bin) => ({ n: sum.n + bin.n, happened: sum.happened + bin.happened, expected: sum.expected + bin.expected, variance: sum.variance + bin.variance }));
    if (total.n === 0) return null;
    return {
      asked: total.n, happened: total.happened, expected: total.expected, deviation: Math.sqrt(Math.max(0, total.variance)), z: zOf(total),
      // A decile with few expected signals is no normal distribution: left to the total.
      worstDecileZ: bins.filter((bin) => bin.variance >= 10).map(zOf).reduce((worst, one) => (Math.abs(one) > Math.abs(worst) ? one : worst), 0),
    };
  }
}

export class KernelChance implements Chance {
  private readonly counters: Readonly<Record<TallyName, Counter>>;
  private hidden = 0;
  private taken = 0;
  private readonly deficits = new Map<object, RandomBytes>();
  private nextFlow = 0;
  private nextForward = 0;
  /** All flows are passed over till the next departure, as was counted when that was settled. */
  private allPassed = false;
  /** The last signal that was asked for, in case a full queue makes it void. */
  private lastAsked: { readonly packet: QueuedPacket; readonly probability: number; readonly answer: boolean } | null = null;

  /**
   * @param scale see Counter
   * @param otherwise of the decisions that `taken` counts, by number from 0: those to be made the other way
   */
  constructor(private readonly fates: KernelFates, scale: number, private readonly otherwise: ReadonlySet<number> = new Set(), readonly placed = false) {
    this.counters = { signals: new Counter(scale), drops: new Counter(1), matches: new Counter(1), turns: new Counter(1), reused: new Counter(1) };
  }

  private fate(packet: QueuedPacket): number {
    return this.fates.fates.get((packet as ReplayPacket).seq); // only ours are ever enqueued
  }

  signals(packet: QueuedPacket, probability: number, hidden = false): boolean {
    const fate = this.fate(packet);
    // What comes in with CE and leaves with it may have been marked again.
    if (hidden || (fate & (SENT | ARRIVED_CE)) === (SENT | ARRIVED_CE)) {
      this.hidden++;
      return false;
    }
    const answer = (fate & MARKED) !== 0 || (fate & (SENT | TAKEN)) === 0;
    this.counters.signals.add(probability, answer);
    this.lastAsked = { packet, probability, answer };
    return answer;
  }

  drops(packet: QueuedPacket, probability: number): boolean {
    const answer = (this.fate(packet) & SENT) === 0;
    this.counters.drops.add(probability, answer);
    return answer;
  }

  /** The packet was dropped for want of room: whether it had a signal too cannot be told. */
  full(packet: QueuedPacket): void {
    if (this.lastAsked?.packet !== packet) return;
    this.counters.signals.add(this.lastAsked.probability, this.lastAsked.answer, -1);
    this.lastAsked = null;
    this.hidden++;
  }

  victim(packet: QueuedPacket): boolean {
    return (this.fate(packet) & TAKEN) !== 0;
  }

  matches(packet: QueuedPacket, probability: number, possible: boolean): boolean {
    const answer = possible && (this.fate(packet) & MATCHED) !== 0;
    this.counters.matches.add(probability, answer);
    return answer;
  }

  rounded(flow: object, probability: number, afresh: boolean): void {
    const bytes = this.deficits.get(flow);
    if (bytes === undefined || afresh) this.deficits.set(flow, new RandomBytes(probability));
    else bytes.maybeOneMore(probability);
  }

  reused(packet: QueuedPacket, probability: number, hidden: boolean): boolean {
    if (hidden) {
      this.hidden++;
      return false;
    }
    const answer = (this.fate(packet) & (SENT | MARKED)) === SENT;
    this.counters.reused.add(probability, answer);
    return answer;
  }

  /** Flow and direction of the packet that the kernel sends at the departure at hand. */
  expect(flow: number, forward: number): void {
    this.nextFlow = flow;
    this.nextForward = forward;
    this.allPassed = false;
  }

  usedUp(flow: object, deficit: number, head: QueuedPacket | null, alone: boolean, quantum: number, others: () => readonly { readonly flow: object; readonly deficit: number }[]): boolean {
    const bytes = this.deficits.get(flow);
    if (bytes === undefined) return deficit <= 0;
    const probability = bytes.atMost(-deficit);
    if (probability === 0 || probability === 1) return probability === 1;
    if (head === null) {
      this.hidden++;
      const answer = this.likelier(probability);
      bytes.given(-deficit, answer);
      return answer;
    }
    if (alone) {
      // Served now or after one more quantum: its deficit can be either.
      this.hidden++;
      bytes.topUp(-deficit, quantum);
      return false;
    }
    const packet = head as ReplayPacket;
    if (packet.flow !== this.nextFlow || (packet.forward ? 1 : 0) !== this.nextForward) {
      if (!this.allPassed) this.counters.turns.add(probability, true);
      bytes.given(-deficit, true);
      return true;
    }
    // It is served, now or in the next round. The latter takes that all others are passed over as well: how likely is that, given that it is served?
    const passes = others().map((other) => this.deficits.get(other.flow)?.atMost(-other.deficit) ?? (other.deficit <= 0 ? 1 : 0));
    const later = probability * passes.reduce((product, one) => product * one, 1);
    const odds = later / (later + 1 - probability);
    // Either is counted with its probability, which keeps the sum a martingale, of a smaller variance than is taken.
    this.counters.turns.add(probability, true, odds);
    this.counters.turns.add(probability, false, 1 - odds);
    for (const one of passes) if (one < 1) this.counters.turns.add(one, true, odds);
    this.allPassed = this.likelier(odds);
    bytes.given(-deficit, this.allPassed);
    return this.allPassed;
  }

  /** What cannot be told from the next departure, only from later ones. */
  private likelier(probability: number): boolean {
    const answer = probability > 0.5;
    return Math.min(probability, 1 - probability) >= leastLikely && this.otherwise.has(this.taken++) ? !answer : answer;
  }

  outcome(): ChanceOutcome {
    const tallies: Partial<Record<TallyName, Tally>> = {};
    for (const name of tallyNames) {
      const tally = this.counters[name].sum();
      if (tally !== null) tallies[name] = tally;
    }
    return { tallies, hidden: this.hidden, taken: this.taken, logLikelihood: tallyNames.reduce((sum, name) => sum + this.counters[name].logLikelihood, 0) };
  }
}

/** Bytes that rounding at random has added to a deficit: the probability of each number, given what was seen. */
class RandomBytes {
  private probabilities: number[];
  private lowest = 0;
  private static readonly negligible = 1e-15;

  constructor(probability: number) {
    this.probabilities = [1 - probability, probability];
  }

  maybeOneMore(probability: number): void {
    const old = this.probabilities;
    old.push(0);
    for (let i = old.length - 1; i > 0; i--) old[i] = old[i]! * (1 - probability) + old[i - 1]! * probability;
    old[0]! *= 1 - probability;
    this.trim();
  }

  /** P(bytes ≤ `limit`) */
  atMost(limit: number): number {
    const { probabilities, lowest } = this;
    if (limit < lowest) return 0;
    if (limit >= lowest + probabilities.length - 1) return 1;
    let sum = 0;
    for (let i = 0; i <= limit - lowest; i++) sum += probabilities[i]!;
    return sum;
  }

  /** It is known now whether they are at most `limit`. */
  given(limit: number, atMost: boolean): void {
    const cut = limit - this.lowest + 1;
    if (atMost) {
      this.probabilities.length = cut;
    } else {
      this.probabilities.splice(0, cut);
      this.lowest += cut;
    }
    const total = this.probabilities.reduce((sum, one) => sum + one, 0);
    for (let i = 0; i < this.probabilities.length; i++) this.probabilities[i]! /= total;
    this.trim();
  }

  /** If they are at most `limit`, a quantum is added. */
  topUp(limit: number, quantum: number): void {
    const { probabilities } = this;
    const cut = limit - this.lowest + 1;
    while (probabilities.length < cut + quantum) probabilities.push(0);
    for (let i = cut - 1; i >= 0; i--) {
      probabilities[i + quantum]! += probabilities[i]!;
      probabilities[i] = 0;
    }
    this.trim();
  }

  private trim(): void {
    const { probabilities } = this;
    while (probabilities.length > 1 && probabilities.at(-1)! < RandomBytes.negligible) probabilities.pop();
    let zeros = 0;
    while (zeros < probabilities.length - 1 && probabilities[zeros]! < RandomBytes.negligible) zeros++;
    if (zeros > 0) {
      probabilities.splice(0, zeros);
      this.lowest += zeros;
    }
  }
}
