/**
 * Deficit round robin with new and old flows: RFC 8290, section 4.2, as Linux's fq_codel, fq_pie and hhf each have it. A flow that
 * begins goes before those that wait, for one quantum.
 */

import { FlowList, type ListedFlow } from './flow-list.js';

export interface WeightedFlow<Flow> extends ListedFlow<Flow> {
  /** Bytes it may still send in this round. */
  deficit: number;
  /** Quanta a round. */
  readonly weight: number;
}

export class NewOldFlows<Flow extends WeightedFlow<Flow>> {
  readonly newFlows = new FlowList<Flow>();
  readonly oldFlows = new FlowList<Flow>();
  /** Flows that began, ever. */
  begun = 0;
  /** Bytes a round for weight 1. */
  quantum = 0;

  /** Of a flow that has a packet to send. */
  begin(flow: Flow): void {
    if (flow.listed) return;
    this.newFlows.add(flow);
    this.begun++;
    flow.deficit = flow.weight * this.quantum;
  }

  /** hhf: a flow that never goes before others. */
  beginOld(flow: Flow): void {
    if (flow.listed) return;
    this.oldFlows.add(flow);
    flow.deficit = flow.weight * this.quantum;
  }

  /** Whose turn it is; it may turn out to be empty: `emptied()`. @returns null: there is no flow */
  next(): Flow | null {
    for (;;) {
      const list = this.newFlows.head !== null ? this.newFlows : this.oldFlows;
      const flow = list.head;
      if (flow === null || flow.deficit > 0) return flow;
      flow.deficit += flow.weight * this.quantum;
      this.oldFlows.add(list.shift());
    }
  }

  /** The flow that `next()` gave has nothing to send. */
  emptied(flow: Flow): void {
    if (this.newFlows.head !== flow) {
      this.oldFlows.shift();
      return;
    }
    this.newFlows.shift();
    // It takes one turn among the old ones, or it could starve them by coming back at once.
    if (this.oldFlows.head !== null) this.oldFlows.add(flow);
  }
}
