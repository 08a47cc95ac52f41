/**
 * Events of several sources in order of time, without holding more than a few thousand: a merge of sources that are each
 * in order, and for packets, which are recorded in order of arrival but leave later, a heap of those still to leave.
 */

export interface Timed { /** ns */ readonly t: number }

/** @param sources each in order. @returns all in order, in pieces; at equal times the source that comes first in the list */
export async function* inTimeOrder<E extends Timed>(sources: readonly AsyncIterator<readonly E[]>[]): AsyncGenerator<E[]> {
  const heads = sources.map((source) => ({ source, piece: [] as readonly E[], at: 0 }));
  const alive: typeof heads = [];
  for (const head of heads) if (await refill(head)) alive.push(head);
  let out: E[] = [];
  while (alive.length > 0) {
    let first = alive[0]!;
    for (let i = 1; i < alive.length; i++) if (alive[i]!.piece[alive[i]!.at]!.t < first.piece[first.at]!.t) first = alive[i]!;
    out.push(first.piece[first.at++]!);
    if (first.at >= first.piece.length && !(await refill(first))) alive.splice(alive.indexOf(first), 1);
    if (out.length >= 4096) {
      yield out;
      out = [];
    }
  }
  if (out.length > 0) yield out;
}

async function refill<E>(head: { readonly source: AsyncIterator<readonly E[]>; piece: readonly E[]; at: number }): Promise<boolean> {
  for (;;) {
    const next = await head.source.next();
    if (next.done === true) return false;
    if (next.value.length === 0) continue;
    head.piece = next.value;
    head.at = 0;
    return true;
  }
}

/**
 * Rows in order of `timeOf` → events in order. `split` says what events a row makes: none may be before the row's own time.
 * Holds those that are later than the last row seen: as many as packets wait in the queue.
 */
export async function* spread<Row, E extends Timed>(pieces: AsyncIterable<readonly Row[]>, timeOf: (row: Row) => number, split: (row: Row, add: (event: E) => void) => void): AsyncGenerator<E[]> {
  const heap = new TimeHeap<E>();
  const add = (event: E): void => heap.push(event);
  for await (const rows of pieces) {
    const out: E[] = [];
    for (const row of rows) {
      const now = timeOf(row);
      while (heap.size > 0 && heap.least().t < now) out.push(heap.pop());
      split(row, add);
    }
    yield out;
  }
  const rest: E[] = [];
  while (heap.size > 0) rest.push(heap.pop());
  yield rest;
}

/** A binary heap; at equal times, first in first out. */
class TimeHeap<E extends Timed> {
  private readonly items: { readonly event: E; readonly order: number }[] = [];
  private order = 0;
  get size(): number { return this.items.length; }
  least(): E { return this.items[0]!.event; }
  push(event: E): void {
    const { items } = this;
    let at = items.push({ event, order: this.order++ }) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!this.before(at, parent)) break;
      [items[at], items[parent]] = [items[parent]!, items[at]!];
      at = parent;
    }
  }
  pop(): E {
    const { items } = this;
    const { event } = items[0]!;
    const last = items.pop()!;
    if (items.length > 0) {
      items[0] = last;
      for (let at = 0; ;) {
        const [left, right] = [2 * at + 1, 2 * at + 2];
        let least = at;
        if (left < items.length && this.before(left, least)) least = left;
        if (right < items.length && this.before(right, least)) least = right;
        if (least === at) break;
        [items[at], items[least]] = [items[least]!, items[at]!];
        at = least;
      }
    }
    return event;
  }
  private before(a: number, b: number): boolean {
    const [x, y] = [this.items[a]!, this.items[b]!];
    return x.event.t < y.event.t || (x.event.t === y.event.t && x.order < y.order);
  }
}
