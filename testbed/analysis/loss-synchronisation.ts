/**
 * Packet-loss synchronisation, RFC 7928 section 2.4: the global synchronisation ratio, "the proportion of flows
 * losing packets during a loss event", averaged over the loss events of the window. A loss event starts with a
 * drop and takes in every drop within one round-trip time of it (a sender answers at most once in that time).
 */

export interface Drop { readonly t: number; readonly flow: number }
export interface FlowLife { readonly id: number; readonly tStart: number; /** null = still running at the end. */ readonly tEnd: number | null }
export interface LossSynchronisation {
  /** Mean over loss events of (flows that lost packets) / (flows active); null with no event in which two flows were active. */
  readonly ratio: number | null;
  /** Loss events in which at least two flows were active. */
  readonly events: number;
}

/**
 * @param drops by time of the dropped packet's arrival, ns
 * @param flows the flows that share the bottleneck; drops of others are left out
 * @param rttNs how long a loss event lasts
 */
export function lossSynchronisation(drops: readonly Drop[], flows: readonly FlowLife[], rttNs: number): LossSynchronisation {
  const ids = new Set(flows.map((flow) => flow.id));
  let events = 0;
  let sum = 0;
  for (let i = 0; i < drops.length;) {
    const start = drops[i]!.t;
    const losing = new Set<number>();
    for (; i < drops.length && drops[i]!.t <= start + rttNs; i++) if (ids.has(drops[i]!.flow)) losing.add(drops[i]!.flow);
    if (losing.size === 0) continue;
    let active = 0;
    for (const flow of flows) if (losing.has(flow.id) || (flow.tStart <= start && (flow.tEnd === null || flow.tEnd >= start))) active++;
    if (active < 2) continue;
    events++;
    sum += losing.size / active;
  }
  return { ratio: events === 0 ? null : sum / events, events };
}
