/** A round-robin list of flows: only its first is ever taken out or moved, so one link a flow is enough. */

export interface ListedFlow<Flow> {
  nextFlow: Flow | null;
  /** In a list now. */
  listed: boolean;
}

export class FlowList<Flow extends ListedFlow<Flow>> {
  head: Flow | null = null;
  private tail: Flow | null = null;
  length = 0;

  add(flow: Flow): void {
    flow.nextFlow = null;
    flow.listed = true;
    if (this.head === null) this.head = flow;
    else this.tail!.nextFlow = flow;
    this.tail = flow;
    this.length++;
  }

  /** Takes out the first; the caller knows that there is one. */
  shift(): Flow {
    const flow = this.head!;
    this.head = flow.nextFlow;
    if (this.head === null) this.tail = null;
    flow.nextFlow = null;
    flow.listed = false;
    this.length--;
    return flow;
  }
}
