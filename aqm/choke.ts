/**
 * CHOKe: Pan, Prabhakar, Psounis, INFOCOM 2000, as Linux 6.12 has it (net/sched/sch_choke.c) over RED in packets
 * (red-core.ts): above min, an arrival is compared with a random waiting packet; if both are of one flow both go.
 * A change keeps what waits, but for what a smaller table cannot hold (counted), and starts with an average of 0.
 *
 * Differences from Linux:
 * - Flows are compared by their 32-bit key, not by the addresses themselves.
 * - The random index lacks the kernel's rejection step (integer.ts).
 * - Holes left by removed packets count towards the kernel's table but not towards its limit, so there the table can
 *   be overrun and then looks empty. Here such a packet is dropped as over the limit.
 */

import { choke as qdisc, resolve } from '../testbed/qdiscs/choke.js';
import { bytesPerSecond } from '../testbed/qdiscs/parameters.js';
import { averagingLog, checkThreshold, idleDamping, probability32 } from '../testbed/qdiscs/red-arithmetic.js';
import { ETHERNET_HEADER, type AqmContext, type AqmKind, type Chance, type QueuedPacket } from './aqm.js';
import { Discipline } from './discipline.js';
import { setCe } from './ecn.js';
import { randomBelow } from './integer.js';
import type { Params } from './params.js';
import { RedParams, RedVars } from './red-core.js';

/** Size of the table less 1, a power of two less 1 above the limit. */
const maskFor = (limit: number): number => {
  let size = 1;
  while (size < limit + 1) size *= 2;
  return size - 1;
};

export interface ChokeParams {
  /** In packets. */
  readonly red: RedParams;
  /** Packets. */
  readonly limit: number;
  readonly ecn: boolean;
}
export function chokeParams(given: Params, { mtuBytes, rateBps }: Pick<AqmContext, 'mtuBytes' | 'rateBps'>): ChokeParams {
  const { limit, min, max, burst, avpkt, probability, bandwidth, ecn } = resolve(given, { mtuBytes: mtuBytes - ETHERNET_HEADER, rateBps });
  const wlog = averagingLog('choke', min * avpkt, burst, avpkt);
  checkThreshold('choke', 'max', max, wlog);
  const { cellLog, table } = idleDamping('choke', wlog, avpkt, bytesPerSecond(bandwidth));
  return { red: new RedParams(min, max, wlog, probability32(probability), cellLog, table), limit, ecn };
}

class Choke extends Discipline {
  private readonly vars = new RedVars();
  private params!: RedParams;
  private limit = 0;
  private ecn = false;
  private table!: (QueuedPacket | null)[];
  private mask = 0;
  private head = 0;
  private tail = 0;
  private early = 0;
  private pdrop = 0;
  private matched = 0;

  constructor(context: AqmContext, params: Params) {
    super(context);
    this.set(params);
    this.mask = maskFor(this.limit);
    this.table = new Array<QueuedPacket | null>(this.mask + 1).fill(null);
    // Unlike RED's, it begins without an idle period: choke_change() ends any.
  }

  private set(given: Params): void {
    ({ red: this.params, limit: this.limit, ecn: this.ecn } = chokeParams(given, this.context));
  }

  override change(params: Params, nowNs: number): void {
    this.set(params);
    const mask = maskFor(this.limit);
    if (mask !== this.mask) {
      const table = new Array<QueuedPacket | null>(mask + 1).fill(null);
      let tail = 0;
      for (; this.head !== this.tail; this.head = (this.head + 1) & this.mask) {
        const packet = this.table[this.head]!;
        if (packet === null) continue;
        if (tail < mask) {
          table[tail++] = packet;
          continue;
        }
        this.backlogPackets--;
        this.backlogBytes -= packet.size;
        this.context.drop(packet, 'limit', nowNs);
      }
      this.table = table;
      this.mask = mask;
      this.head = 0;
      this.tail = tail;
    }
    this.vars.reset();
    if (this.head === this.tail) this.vars.idle = false;
  }

  override enqueue(packet: QueuedPacket, nowNs: number): void {
    packet.enqueueNs = nowNs;
    const { vars, params } = this;
    const random = this.context.randomU32;
    vars.arrive(params, this.backlogPackets, nowNs);
    if (vars.qavg <= params.qthMin) {
      vars.qcount = -1;
    } else {
      const index = this.match(packet);
      if (index >= 0) {
        this.matched++;
        this.dropAt(index, nowNs);
        this.context.drop(packet, 'aqm', nowNs);
        return;
      }
      let signal = false;
      if (vars.qavg > params.qthMax) {
        vars.qcount = -1;
        signal = true;
      } else {
        signal = vars.between(params, random, packet, this.context.chance);
      }
      if (signal) {
        if (!this.ecn || !setCe(packet)) {
          this.early++;
          this.context.drop(packet, 'aqm', nowNs);
          return;
        }
        this.marks++;
      }
    }
    if (this.backlogPackets >= this.limit || ((this.tail + 1) & this.mask) === this.head) {
      this.pdrop++;
      this.context.drop(packet, 'limit', nowNs);
      return;
    }
    packet.next = null;
    this.table[this.tail] = packet;
    this.tail = (this.tail + 1) & this.mask;
    this.backlogPackets++;
    this.backlogBytes += packet.size;
  }

  /** choke_match_random(): where the random packet stands if it is of the arrival's flow; −1 otherwise. */
  private match(packet: QueuedPacket): number {
    if (this.head === this.tail) return -1;
    const { chance } = this.context;
    if (chance !== undefined) return this.matchBy(chance, packet);
    const index = this.pickRandom(this.context.randomU32);
    return this.table[index]!.flowHash === packet.flowHash ? index : -1;
  }

  private matchBy(chance: Chance, packet: QueuedPacket): number {
    let same = 0, holes = 0, victim = -1;
    for (let at = this.head; at !== this.tail; at = (at + 1) & this.mask) {
      const other = this.table[at]!;
      if (other === null) {
        holes++;
      } else if (other.flowHash === packet.flowHash) {
        same++;
        if (victim < 0 && chance.victim(other)) victim = at;
      }
    }
    const length = (this.tail - this.head) & this.mask, hole = holes / length;
    const headMatches = this.table[this.head]!.flowHash === packet.flowHash;
    const probability = (same / length) * (1 + hole + hole * hole) + (headMatches ? hole ** 3 : 0);
    return same > 0 && chance.matches(packet, probability, victim >= 0) ? victim : -1;
  }

  /** choke_peek_random(): three tries to miss the holes, else the head. */
  private pickRandom(random: () => number): number {
    const length = (this.tail - this.head) & this.mask;
    for (let tries = 0; tries < 3; tries++) {
      const index = (this.head + randomBelow(random, length)) & this.mask;
      if (this.table[index] !== null) return index;
    }
    return this.head;
  }

  private dropAt(index: number, nowNs: number): void {
    const packet = this.table[index]!;
    this.table[index] = null;
    if (index === this.head) this.skipHoles();
    this.backlogPackets--;
    this.backlogBytes -= packet.size;
    this.context.drop(packet, 'aqm', nowNs);
  }

  /** choke_zap_head_holes() */
  private skipHoles(): void {
    do this.head = (this.head + 1) & this.mask;
    while (this.head !== this.tail && this.table[this.head] === null);
  }

  override dequeue(nowNs: number): QueuedPacket | null {
    if (this.head === this.tail) {
      this.vars.startIdle(nowNs);
      return null;
    }
    const packet = this.table[this.head]!;
    this.table[this.head] = null;
    this.skipHoles();
    this.backlogPackets--;
    this.backlogBytes -= packet.size;
    return packet;
  }

  /** choke_peek_head() */
  override peek(): QueuedPacket | null {
    return this.head === this.tail ? null : this.table[this.head]!;
  }

  override readState(into: Float64Array): void {
    into[0] = this.early;
    into[1] = this.pdrop;
    into[2] = 0;
    into[3] = this.matched;
    into[4] = this.vars.qavg / this.params.scale;
  }
}

export const choke: AqmKind = {
  kind: 'choke',
  schema: qdisc.schema,
  state: [...qdisc.state, 'qavg'],
  create: (params, context) => new Choke(context, params),
};
