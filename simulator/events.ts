/**
 * The event core: an indexed 4-ary heap on typed arrays. Every source of events (a link's shaper, a wire, a TCP
 * timer, a sampler) is an Actor with at most one pending event, so the heap holds one entry a source, not one a
 * packet; a FIFO (wire.ts) keeps only its head here. Events at equal times fire in the order in which they were
 * scheduled; plan events, AQM timers, samplers and the edges of the window fire, in this order, before anything else of that instant,
 * and the timers of TCP next, the one set last first.
 */

/** A source of events. `fire` is called at the scheduled time and may schedule its own actor again. */
export abstract class Actor {
  /** Index in the event queue, given by `add`; −1 when not in one. */
  actorId = -1;
  abstract fire(): void;
}

/** A process that an event wakes: it runs when all events of that instant have fired, as the kernel handles what packets and timers bring before processes. */
export interface Process { run(): void }

/** Orders of events that precede all ordinary ones of the same instant. */
export const before = { planEvent: -(2 ** 53) + 1, aqmTimer: -(2 ** 53) + 2, sampler: -(2 ** 53) + 3, windowEdge: -(2 ** 53) + 4 } as const;
/** Between the levels of the timer wheel: more than timers are ever set. */
const timerLevel = 2 ** 48;

const firing = -Infinity;

export class EventQueue {
  /** Simulated time, ns. A double field that is never a small integer at first, so that it is stored unboxed in place. */
  now = -0.5;
  /** Events fired so far. */
  fired = 0;
  private times = new Float64Array(64);
  private orders = new Float64Array(64);
  private position = new Int32Array(64).fill(-1);
  private heap = new Int32Array(64);
  private size = 0;
  private nextOrder = 0.5;
  private timersSet = 0;
  private readonly actors: (Actor | null)[] = [];
  /** actors[i].fire: looking a method up in objects of many classes costs more than the call. */
  private readonly fires: ((this: Actor) => void)[] = [];
  private readonly freeIds: number[] = [];
  /** Processes that were woken, in that order; the first `awake` entries. */
  private readonly woken: (Process | null)[] = [];
  private awake = 0;

  constructor() {
    this.now = 0;
    this.nextOrder = 1;
  }

  add(actor: Actor): void {
    let id = this.freeIds.pop();
    if (id === undefined) {
      id = this.actors.length;
      this.actors.push(actor);
      this.fires.push(actor.fire);
      if (id === this.position.length) this.grow();
    } else {
      this.actors[id] = actor;
      this.fires[id] = actor.fire;
    }
    actor.actorId = id;
    this.position[id] = -1;
  }

  remove(actor: Actor): void {
    const id = actor.actorId;
    if (id < 0) return;
    this.cancel(id);
    this.actors[id] = null;
    this.orders[id] = 0;
    this.freeIds.push(id);
    actor.actorId = -1;
  }

  private grow(): void {
    const capacity = this.position.length * 2;
    const times = new Float64Array(capacity); times.set(this.times); this.times = times;
    const orders = new Float64Array(capacity); orders.set(this.orders); this.orders = orders;
    const position = new Int32Array(capacity).fill(-1); position.set(this.position); this.position = position;
    const heap = new Int32Array(capacity); heap.set(this.heap); this.heap = heap;
  }

  /** A number that orders an event after everything scheduled so far at the same time. */
  takeOrder(): number { return this.nextOrder++; }

  /**
   * A number that orders a timer of the kernel's timer wheel set now: before those of its level set earlier, as a bucket of the wheel is a
   * list that new timers go to the head of, after higher levels, and before all ordinary events of the instant (expire_timers, kernel/time/timer.c).
   * @param level 0 for the wheel's finest, 8 at most
   */
  takeTimerOrder(level: number): number { return -level * timerLevel - ++this.timersSet; }

  /** Sets the actor's next event, replacing one that was pending. @param time ns, not before now */
  schedule(id: number, time: number): void { this.scheduleOrdered(id, time, this.nextOrder++); }

  scheduleOrdered(id: number, time: number, order: number): void {
    const at = this.position[id];
    if (at === undefined) throw new Error('an actor that was removed cannot be scheduled');
    if (at < 0) {
      this.times[id] = time;
      this.orders[id] = order;
      this.up(this.size++, id);
      return;
    }
    const earlier = time < this.times[id]! || (time === this.times[id]! && order < this.orders[id]!);
    this.times[id] = time;
    this.orders[id] = order;
    if (earlier) this.up(at, id); else this.down(at, id);
  }

  cancel(id: number): void {
    const at = this.position[id]!;
    if (at < 0) return;
    this.position[id] = -1;
    const last = this.heap[--this.size]!;
    if (last === id) return;
    const time = this.times[last]!;
    const parent = this.heap[(at - 1) >> 2];
    if (at > 0 && parent !== undefined && (time < this.times[parent]! || (time === this.times[parent]! && this.orders[last]! < this.orders[parent]!))) this.up(at, last);
    else this.down(at, last);
  }

  pending(id: number): boolean { return this.position[id]! >= 0; }
  /** Time of the actor's pending event, ns; Infinity when none. */
  timeOf(id: number): number { return this.position[id]! >= 0 ? this.times[id]! : Infinity; }

  /** Time of the first pending event, ns; Infinity when there is none. */
  get nextNs(): number { return this.size > 0 ? this.times[this.heap[0]!]! : Infinity; }

  private up(from: number, id: number): void {
    const { heap, times, orders, position } = this;
    const time = times[id]!;
    const order = orders[id]!;
    let at = from;
    while (at > 0) {
      const parentAt = (at - 1) >> 2;
      const parent = heap[parentAt]!;
      const parentTime = times[parent]!;
      if (parentTime < time || (parentTime === time && orders[parent]! <= order)) break;
      heap[at] = parent;
      position[parent] = at;
      at = parentAt;
    }
    heap[at] = id;
    position[id] = at;
  }

  private down(from: number, id: number): void {
    const { heap, times, orders, position, size } = this;
    const time = times[id]!;
    const order = orders[id]!;
    let at = from;
    for (;;) {
      let child = at * 4 + 1;
      if (child >= size) break;
      let best = heap[child]!;
      let bestTime = times[best]!;
      let bestAt = child;
      const end = child + 4 < size ? child + 4 : size;
      for (child++; child < end; child++) {
        const other = heap[child]!;
        const otherTime = times[other]!;
        if (otherTime < bestTime || (otherTime === bestTime && orders[other]! < orders[best]!)) { best = other; bestTime = otherTime; bestAt = child; }
      }
      if (time < bestTime || (time === bestTime && order <= orders[best]!)) break;
      heap[at] = best;
      position[best] = at;
      at = bestAt;
    }
    heap[at] = id;
    position[id] = at;
  }

  /** Runs the process once, when all events of this instant have fired. */
  wake(process: Process): void { this.woken[this.awake++] = process; }

  private runProcesses(): void {
    for (let k = 0; k < this.awake; k++) {
      const process = this.woken[k]!;
      this.woken[k] = null;
      process.run();
    }
    this.awake = 0;
  }

  /** Fires every event up to and including `untilNs`; then the time is `untilNs`. */
  run(untilNs: number): void {
    for (;;) {
      const id = this.heap[0]!;
      const time = this.size > 0 ? this.times[id]! : Infinity;
      if (this.awake > 0 && time > this.now) {
        this.runProcesses();
        continue;
      }
      if (time > untilNs || this.size === 0) break;
      this.now = time;
      // The entry stays at the root while its actor acts: rescheduling it is then a single sift.
      this.orders[id] = firing;
      this.fired++;
      this.fires[id]!.call(this.actors[id]!);
      if (this.orders[id] === firing) this.cancel(id);
    }
    this.now = untilNs;
  }
}
