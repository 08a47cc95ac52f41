/**
 * From what was seen at a router to what its queues did: every packet is captured when it enters the router and
 * again when it leaves by the bottleneck, and the two sightings are one packet's sojourn.
 *
 * Rules (rows in order of time, entering before leaving at one instant):
 * - A leaving record takes the oldest entering one of its key in its direction (FIFO a key, since forwarding keeps
 *   the order of identical packets).
 * - CE on leaving but not on entering = marked by this queue.
 * - A packet that left but never entered is the router's own: t_enqueue = t_dequeue, and it is counted.
 * - One that entered and was never seen leaving was dropped, unless it may still be waiting when the record ends.
 *   How many can wait: the backlog of the direction's last queue sample at or before the end of the capture, if that
 *   is no older than a second, plus what arrived and minus what left since; the latest arrivals are taken to be the ones
 *   waiting. Without such a sample: those that arrived after the latest-arrived packet that was seen leaving (exact
 *   for a FIFO).
 */

import { ecnMask, ecnShift, PacketColumns, packetFlag } from './packet-columns.js';
import { fieldOffsets, readRecordHeader } from './record-file.js';
import { rowsInTimeOrder } from './time-order.js';

/** FIFO queues of packet indices by a 64-bit key: open addressing, linear probing, deletion by shifting back. */
export class PendingByKey {
  private capacity: number;
  private mask: number;
  private used = 0;
  private low: Uint32Array;
  private high: Uint32Array;
  /** Entry number + 1 of the oldest and the youngest; 0 = empty slot. */
  private first: Uint32Array;
  private last: Uint32Array;
  private packet: Uint32Array<ArrayBuffer> = new Uint32Array(1024);
  private next: Uint32Array<ArrayBuffer> = new Uint32Array(1024);
  private free = 0;
  private entries = 0;

  constructor(capacity = 1024) {
    this.capacity = capacity;
    this.mask = capacity - 1;
    this.low = new Uint32Array(capacity);
    this.high = new Uint32Array(capacity);
    this.first = new Uint32Array(capacity);
    this.last = new Uint32Array(capacity);
  }

  private home(low: number, high: number): number {
    let h = Math.imul(low ^ Math.imul(high, 0x9e3779b1), 0x85ebca6b);
    h ^= h >>> 15;
    return h & this.mask;
  }

  private find(low: number, high: number): number {
    let slot = this.home(low, high);
    while (this.first[slot] !== 0 && (this.low[slot] !== low || this.high[slot] !== high)) slot = (slot + 1) & this.mask;
    return slot;
  }

  push(low: number, high: number, packet: number): void {
    let entry: number;
    if (this.free !== 0) {
      entry = this.free;
      this.free = this.next[entry - 1]!;
    } else {
      if (this.entries === this.packet.length) {
        const larger = (old: Uint32Array): Uint32Array<ArrayBuffer> => { const grown = new Uint32Array(2 * old.length); grown.set(old); return grown; };
        this.packet = larger(this.packet);
        this.next = larger(this.next);
      }
      entry = ++this.entries;
    }
    this.packet[entry - 1] = packet;
    this.next[entry - 1] = 0;
    const slot = this.find(low, high);
    if (this.first[slot] === 0) {
      this.low[slot] = low;
      this.high[slot] = high;
      this.first[slot] = entry;
      this.last[slot] = entry;
      if (++this.used * 2 > this.capacity) this.grow();
    } else {
      this.next[this.last[slot]! - 1] = entry;
      this.last[slot] = entry;
    }
  }

  /** Takes the oldest packet of the key; −1 if there is none. */
  shift(low: number, high: number): number {
    const slot = this.find(low, high);
    const entry = this.first[slot]!;
    if (entry === 0) return -1;
    const packet = this.packet[entry - 1]!;
    const next = this.next[entry - 1]!;
    this.next[entry - 1] = this.free;
    this.free = entry;
    if (next !== 0) this.first[slot] = next;
    else this.remove(slot);
    return packet;
  }

  private remove(slot: number): void {
    this.used--;
    let hole = slot;
    let probe = slot;
    for (;;) {
      probe = (probe + 1) & this.mask;
      if (this.first[probe] === 0) break;
      const home = this.home(this.low[probe]!, this.high[probe]!);
      // The record at `probe` may move to the hole unless its home lies behind the hole.
      if (((probe - home) & this.mask) >= ((probe - hole) & this.mask)) {
        this.low[hole] = this.low[probe]!;
        this.high[hole] = this.high[probe]!;
        this.first[hole] = this.first[probe]!;
        this.last[hole] = this.last[probe]!;
        hole = probe;
      }
    }
    this.first[hole] = 0;
  }

  private grow(): void {
    const { low, high, first, last, capacity } = this;
    this.capacity = 2 * capacity;
    this.mask = this.capacity - 1;
    this.low = new Uint32Array(this.capacity);
    this.high = new Uint32Array(this.capacity);
    this.first = new Uint32Array(this.capacity);
    this.last = new Uint32Array(this.capacity);
    for (let i = 0; i < capacity; i++) {
      if (first[i] === 0) continue;
      const slot = this.find(low[i]!, high[i]!);
      this.low[slot] = low[i]!;
      this.high[slot] = high[i]!;
      this.first[slot] = first[i]!;
      this.last[slot] = last[i]!;
    }
  }
}

/** What became of one direction's captures. */
export interface CaptureNote {
  readonly direction: string;
  readonly entered: number;
  readonly left: number;
  /** Left, never entered: the router's own packets. */
  readonly own: number;
  readonly dropped: number;
  readonly marked: number;
  /** Entered, not seen leaving, taken to be still in the queue when the record ended. */
  readonly waiting: number;
}
export interface MatchedDirection { readonly name: string; readonly packets: PacketColumns; readonly note: CaptureNote }
export interface BacklogSample { readonly t: number; readonly backlogPackets: number }
/** @returns the direction's last backlog sample at or before `t`, ns, or null when there is none that is recent */
export type LastBacklog = (direction: string, t: number) => BacklogSample | null;

/**
 * @param path captures-<router>.rec
 * @param directions the dictionary's names
 * @param skip directions whose packets are recorded in another way
 */
export function matchCaptures(path: string, directions: readonly string[], lastBacklog: LastBacklog, skip: ReadonlySet<string> = new Set()): MatchedDirection[] {
  const at = fieldOffsets(readRecordHeader(path));
  const { rowBytes } = readRecordHeader(path);
  const [tAt, lowAt, highAt, sizeAt, flowAt] = [at['t']!, at['key_lo']!, at['key_hi']!, at['size']!, at['flow']!];
  const [directionAt, leavingAt, ecnAt, forwardAt] = [at['direction']!, at['leaving']!, at['ecn']!, at['forward']!];
  const states = directions.map((name) => ({
    name, packets: new PacketColumns(), pending: new PendingByKey(), entered: 0, left: 0, own: 0, marked: 0, latest: -1, end: -Infinity,
  }));

  for (const { view, order, count } of rowsInTimeOrder(path, 't', 'leaving')) {
    for (let i = 0; i < count; i++) {
      const row = order[i]! * rowBytes;
      const state = states[view.getUint8(row + directionAt)];
      if (state === undefined) continue; // on its way to a link that is no bottleneck
      const t = view.getFloat64(row + tAt, true);
      const low = view.getUint32(row + lowAt, true);
      const high = view.getUint32(row + highAt, true);
      const ecn = view.getUint8(row + ecnAt);
      state.end = t;
      if (view.getUint8(row + leavingAt) === 0) {
        const flags = (view.getUint8(row + forwardAt) === 1 ? packetFlag.forward : 0) | (ecn << ecnShift);
        state.entered++;
        state.pending.push(low, high, state.packets.push(t, NaN, view.getUint32(row + sizeAt, true), view.getInt32(row + flowAt, true), flags));
        continue;
      }
      state.left++;
      const index = state.pending.shift(low, high);
      if (index < 0) {
        state.own++;
        const flags = (view.getUint8(row + forwardAt) === 1 ? packetFlag.forward : 0) | (ecn << ecnShift) | packetFlag.own;
        state.packets.push(t, t, view.getUint32(row + sizeAt, true), view.getInt32(row + flowAt, true), flags);
        continue;
      }
      state.packets.setDequeued(index, t);
      if (index > state.latest) state.latest = index;
      if (ecn === 3 && ((state.packets.flags(index) >> ecnShift) & ecnMask) !== 3) {
        state.packets.addFlags(index, packetFlag.marked);
        state.marked++;
      }
    }
  }

  return states.filter((state) => !skip.has(state.name)).map((state) => {
    const { packets } = state;
    const sample = lastBacklog(state.name, state.end);
    let most = sample?.backlogPackets ?? Infinity;
    if (sample !== null) {
      for (let i = packets.length - 1; i >= 0; i--) {
        if (packets.tEnqueue(i) > sample.t) most++;
        if (packets.tDequeue(i) > sample.t) most--;
      }
    }
    let waiting = 0;
    let dropped = 0;
    for (let i = packets.length - 1; i >= 0; i--) {
      if (!Number.isNaN(packets.tDequeue(i))) continue;
      if (sample === null ? i > state.latest : waiting < most) waiting++;
      else {
        packets.addFlags(i, packetFlag.dropped);
        dropped++;
      }
    }
    const { name, entered, left, own, marked } = state;
    return { name, packets, note: { direction: name, entered, left, own, dropped, marked, waiting } };
  });
}

