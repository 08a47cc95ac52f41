/**
 * The agent's event loop: timers and file descriptors, blocking in epoll (level-triggered) with nanosecond
 * timeouts (epoll_pwait2, Linux 5.11; before it epoll_wait in whole ms). In virtual time every system call is
 * a cost of 10–40 µs and a wait rounded down would spin for ever, so: one wait a wake-up, up to 128 events each,
 * waits always rounded up, nothing allocated per event. The clock is read where a timer may be due. In virtual time
 * a descriptor's wake-up reads it only when asked for the time: the next timer is then waited for by a timerfd, set
 * to its absolute time once, however many descriptors come before it.
 *
 * Run time is CLOCK_MONOTONIC minus a fixed origin; before the origin it is negative.
 */

import * as os from 'node:os';
import type { EventLoop, Timer } from './context.js';
import { CLOCK_MONOTONIC, SystemError, clockNs, close, epollCreate1, epollCtl, stable, timerfdCreate, timerfdSettime, tryEpollPwait2, tryEpollWait } from '../linux/libc.js';

const maxEvents = 128;
/** struct epoll_event is packed on x86 only (linux/eventpoll.h, EPOLL_PACKED). */
const packed = process.arch === 'x64' || process.arch === 'ia32';
const eventBytes = packed ? 12 : 16;
const dataAt = packed ? 4 : 8;
const EPOLL_CLOEXEC = 0o2000000;
const [ADD, DELETE, MODIFY] = [1, 2, 3] as const;
const { EINTR, ENOSYS } = os.constants.errno;
/** Wait no longer than this at a time, ns: bounded, whatever a caller asks. */
const longestWait = 3600e9;

const TFD_NONBLOCK = 0o4000;
const TFD_CLOEXEC = 0o2000000;
const TFD_TIMER_ABSTIME = 1;
const [EPOLLIN, EPOLLET] = [0x1, 0x80000000] as const;

type FdCall = (events: number) => void;

class Entry implements Timer {
  /** Place in the heap, −1 when not in it. */
  place = -1;
  order = 0;
  ticks = 0;
  constructor(
    readonly loop: Loop,
    public timeNs: number,
    readonly call: (nowNs: number) => void,
    /** 0: once. */
    readonly startNs = 0,
    readonly intervalNs = 0,
    readonly stopNs = 0,
  ) {}
  cancel(): void {
    this.loop.remove(this);
  }
}

/** How late timers ran, ns: for the check that a host kept real time. Buckets are powers of 2^¼ from 1 µs (19 % wide). */
export class Lateness {
  count = 0;
  maxNs = 0;
  /** When that was, ns of the run. */
  maxAtNs = 0;
  /** Ticks of periodic timers that were skipped because the next was already due. */
  missedTicks = 0;
  private readonly buckets = new Uint32Array(128);

  /** @param atNs when, ns of the run, for `maxAtNs` */
  add(ns: number, atNs = 0): void {
    this.count++;
    if (ns > this.maxNs) {
      this.maxNs = ns;
      this.maxAtNs = atNs;
    }
    const bucket = ns <= 1000 ? 0 : Math.min(127, 1 + Math.floor(4 * Math.log2(ns / 1000)));
    this.buckets[bucket]!++;
  }

  /** Upper edge of the bucket that holds quantile `q`, ns; 0 without samples. */
  quantile(q: number): number {
    if (this.count === 0) return 0;
    let left = Math.ceil(q * this.count);
    for (let i = 0; i < this.buckets.length; i++) {
      left -= this.buckets[i]!;
      if (left <= 0) return Math.min(this.maxNs, 1000 * 2 ** (i / 4));
    }
    return this.maxNs;
  }
}

export class Loop implements EventLoop {
  /** Of timers due at or after run time 0. */
  readonly lateness = new Lateness();
  /** How late the loop woke from its waits for such a timer: the machine's part of it, without what calls of this process took. Real time only. */
  readonly wakeLateness = new Lateness();
  /** Wake-ups so far: what the loop cost. */
  wakeups = 0;
  private readonly epoll: number;
  private readonly heap: Entry[] = [];
  private orderNext = 0;
  private readonly calls: (FdCall | undefined)[] = [];
  /** Counts watches of each descriptor, so that an event of a closed one never reaches its successor. */
  private readonly generation: number[] = [];
  private readonly events = stable(maxEvents * eventBytes);
  private readonly view = new DataView(this.events.buffer);
  private readonly control = stable(eventBytes);
  private readonly timeout = stable(16);
  /** struct timespec as 32-bit halves (both values stay below 2^32): no BigInt per wait. */
  private readonly timeoutWords = new Uint32Array(this.timeout.buffer);
  private fineWaits: boolean;
  private readonly rereads: boolean;
  /** The last wait was for a time that had not come yet. Real time only. */
  private waited = false;
  private stopping = false;
  private nowRun = 0;
  /** `nowRun` is of the last wake-up. */
  private nowKnown = true;
  /** In virtual time; else −1. */
  private readonly timer: number = -1;
  /** What it is set to, ns of the run. */
  private timerNs = -Infinity;
  private readonly timerValue = stable(32);

  /**
   * @param originNs CLOCK_MONOTONIC at run time 0, ns
   * @param clock 'real': the clock is read again before each wait, as it moved on while calls ran
   * @param fineWaits false: as on a kernel without epoll_pwait2
   */
  constructor(readonly originNs: number, clock: 'virtual' | 'real', fineWaits = true) {
    this.epoll = epollCreate1(EPOLL_CLOEXEC);
    this.fineWaits = fineWaits;
    this.rereads = clock === 'real';
    if (clock === 'virtual') {
      this.timer = timerfdCreate(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
      this.generation[this.timer] = 0;
      this.setControl(this.timer, EPOLLIN | EPOLLET); // edge-triggered: an expiry needs no reading
      epollCtl(this.epoll, ADD, this.timer, this.control);
    }
  }

  monotonicNs(): number {
    return clockNs(CLOCK_MONOTONIC);
  }

  /** ns of the run now (a system call in a guest). */
  now(): number {
    return clockNs(CLOCK_MONOTONIC) - this.originNs;
  }

  get wokeNs(): number {
    if (!this.nowKnown) this.readNow();
    return this.nowRun;
  }

  at(runNs: number, call: (nowNs: number) => void): Timer {
    const entry = new Entry(this, runNs, call);
    this.add(entry);
    return entry;
  }

  every(startNs: number, intervalNs: number, stopNs: number, call: (nowNs: number) => void): Timer {
    if (!(intervalNs > 0)) throw new RangeError(`interval of ${intervalNs} ns`);
    const entry = new Entry(this, startNs, call, startNs, intervalNs, stopNs);
    if (startNs <= stopNs) this.add(entry);
    return entry;
  }

  watch(fd: number, events: number, call: FdCall): void {
    if (this.calls[fd]) throw new Error(`descriptor ${fd} is watched already`);
    this.calls[fd] = call;
    this.generation[fd] = ((this.generation[fd] ?? 0) + 1) >>> 0;
    this.setControl(fd, events);
    epollCtl(this.epoll, ADD, fd, this.control);
  }

  rewatch(fd: number, events: number): void {
    this.setControl(fd, events);
    epollCtl(this.epoll, MODIFY, fd, this.control);
  }

  unwatch(fd: number, closing = false): void {
    if (!this.calls[fd]) return;
    this.calls[fd] = undefined;
    if (!closing) epollCtl(this.epoll, DELETE, fd, this.control);
  }

  /** Makes `run` return once the current calls are through. */
  stop(): void {
    this.stopping = true;
  }

  /**
   * Runs timers and descriptors until run time `untilNs` (timers due at that very time included), `isFinished()`,
   * `stop()`, or a signal that interrupts the wait.
   * @returns why it returned
   * @throws whatever a callback throws; SystemError of epoll
   */
  run(untilNs: number, isFinished: () => boolean = never): 'time' | 'finished' | 'stopped' | 'signal' {
    this.stopping = false;
    this.readNow();
    for (;;) {
      const next = this.heap[0];
      const wakeNs = next !== undefined && next.timeNs < untilNs ? next.timeNs : untilNs;
      const count = this.waitUntil(wakeNs);
      this.wakeups++;
      this.nowKnown = false;
      if (count < 0 && count !== -EINTR) throw new SystemError('epoll_wait', -count);
      let timersDue = this.timer < 0 || count <= 0;
      for (let i = 0; i < count && !timersDue; i++) timersDue = this.view.getUint32(i * eventBytes + dataAt, true) === this.timer;
      if (timersDue) {
        this.readNow();
        if (this.waited && wakeNs >= 0 && this.nowRun >= wakeNs) this.wakeLateness.add(this.nowRun - wakeNs, wakeNs);
        this.runTimers(Math.min(this.nowRun, untilNs));
      }
      for (let i = 0; i < count; i++) {
        const at = i * eventBytes;
        const fd = this.view.getUint32(at + dataAt, true);
        const call = this.calls[fd];
        if (call !== undefined && this.generation[fd] === this.view.getUint32(at + dataAt + 4, true)) call(this.view.getUint32(at, true));
      }
      if (this.stopping) return 'stopped';
      if (isFinished()) return 'finished';
      if (timersDue && this.nowRun >= untilNs) return 'time';
      if (count === -EINTR) return 'signal';
    }
  }

  close(): void {
    if (this.timer >= 0) close(this.timer);
    close(this.epoll);
  }

  /** Takes a timer out of the heap. */
  remove(entry: Entry): void {
    const { place } = entry;
    if (place < 0) return;
    entry.place = -1;
    const last = this.heap.pop()!;
    if (last === entry) return;
    this.heap[place] = last;
    last.place = place;
    this.up(place);
    this.down(last.place);
  }

  /** Timers due by `dueNs`, in order of time; new ones set by their calls too when due. */
  private runTimers(dueNs: number): void {
    for (;;) {
      const entry = this.heap[0];
      if (entry === undefined || entry.timeNs > dueNs) return;
      const lateNs = this.nowRun - entry.timeNs;
      if (entry.timeNs >= 0) this.lateness.add(lateNs, entry.timeNs);
      if (entry.intervalNs === 0) {
        this.remove(entry);
      } else {
        const skipped = Math.floor(Math.min(lateNs, entry.stopNs - entry.timeNs) / entry.intervalNs);
        this.lateness.missedTicks += skipped;
        entry.ticks += 1 + skipped;
        entry.timeNs = entry.startNs + entry.ticks * entry.intervalNs; // a product, not a sum: no drift
        if (entry.timeNs > entry.stopNs) {
          this.remove(entry);
        } else {
          entry.order = this.orderNext++;
          this.down(0);
        }
      }
      entry.call(this.nowRun);
      if (this.stopping) return;
    }
  }

  private readNow(): void {
    this.nowRun = this.now();
    this.nowKnown = true;
    if (this.nowRun >= this.timerNs) this.timerNs = -Infinity; // expired: it would not say so again
  }

  /** epoll_wait until that time of the run. @returns events, or −errno */
  private waitUntil(wakeNs: number): number {
    // In virtual time the clock moves only while we wait: the reading of the last wake-up still holds.
    if (this.rereads) {
      const ns = wakeNs - this.now();
      this.waited = ns > 0;
      return this.wait(ns);
    }
    if (this.nowKnown && wakeNs !== this.timerNs) return this.wait(wakeNs - this.nowRun);
    if (wakeNs !== this.timerNs) this.setTimer(wakeNs);
    return this.wait(longestWait);
  }

  private setTimer(wakeNs: number): void {
    this.timerNs = wakeNs;
    const monotonicNs = Math.max(1, Math.ceil(Math.min(this.originNs + wakeNs, Number.MAX_SAFE_INTEGER))); // 0 would disarm it
    const seconds = Math.floor(monotonicNs / 1e9);
    this.timerValue.writeUInt32LE(seconds, 16);
    this.timerValue.writeUInt32LE(monotonicNs - seconds * 1e9, 24);
    timerfdSettime(this.timer, TFD_TIMER_ABSTIME, this.timerValue, null);
  }

  /** epoll_wait for `ns` (rounded up, so never short). @returns events, or −errno */
  private wait(ns: number): number {
    const bounded = ns <= 0 ? 0 : Math.min(Math.ceil(ns), longestWait);
    if (this.fineWaits) {
      const seconds = Math.floor(bounded / 1e9);
      this.timeoutWords[0] = seconds;
      this.timeoutWords[2] = bounded - seconds * 1e9;
      const count = tryEpollPwait2(this.epoll, this.events, maxEvents, this.timeout, null);
      if (count !== -ENOSYS) return count;
      this.fineWaits = false;
    }
    return tryEpollWait(this.epoll, this.events, maxEvents, Math.ceil(bounded / 1e6));
  }

  private setControl(fd: number, events: number): void {
    this.control.writeUInt32LE(events >>> 0, 0);
    this.control.writeUInt32LE(fd, dataAt);
    this.control.writeUInt32LE(this.generation[fd]!, dataAt + 4);
  }

  private add(entry: Entry): void {
    entry.order = this.orderNext++;
    entry.place = this.heap.length;
    this.heap.push(entry);
    this.up(entry.place);
  }

  private up(place: number): void {
    const { heap } = this;
    const entry = heap[place]!;
    while (place > 0) {
      const parentPlace = (place - 1) >> 1;
      const parent = heap[parentPlace]!;
      if (!before(entry, parent)) break;
      heap[place] = parent;
      parent.place = place;
      place = parentPlace;
    }
    heap[place] = entry;
    entry.place = place;
  }

  private down(place: number): void {
    const { heap } = this;
    const entry = heap[place]!;
    for (;;) {
      let childPlace = 2 * place + 1;
      if (childPlace >= heap.length) break;
      if (childPlace + 1 < heap.length && before(heap[childPlace + 1]!, heap[childPlace]!)) childPlace++;
      const child = heap[childPlace]!;
      if (!before(child, entry)) break;
      heap[place] = child;
      child.place = place;
      place = childPlace;
    }
    heap[place] = entry;
    entry.place = place;
  }
}

const never = (): boolean => false;
const before = (a: Entry, b: Entry): boolean => a.timeNs < b.timeNs || (a.timeNs === b.timeNs && a.order < b.order);
