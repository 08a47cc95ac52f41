/**
 * How much of a cumulative count of a flow (payload bytes, retransmissions) falls into the measurement window.
 * Engines read the counts at the window's edges; a flow that began or ended inside needs no reading. Where a reading is
 * missing, the count is taken to have grown evenly over the flow's life, and the flow is counted as interpolated.
 */

export interface FlowCounts {
  readonly tStart: number | null;
  readonly tEnd: number | null;
  readonly total: number | null;
  readonly atOpen: number | null;
  readonly atClose: number | null;
}
export interface InWindow { readonly value: number | null; readonly interpolated: boolean }

export function inWindow(flow: FlowCounts, openNs: number, closeNs: number, runEndNs: number): InWindow {
  if (flow.tStart === null || flow.tStart >= closeNs || (flow.tEnd !== null && flow.tEnd <= openNs)) return { value: 0, interpolated: false };
  const { tStart } = flow;
  const end = flow.tEnd ?? runEndNs;
  const evenly = (t: number): number | null => (flow.total === null ? null : end <= tStart ? flow.total : flow.total * Math.min(1, Math.max(0, (t - tStart) / (end - tStart))));
  let interpolated = false;
  const read = (value: number | null, t: number): number | null => {
    if (value !== null) return value;
    interpolated = true;
    return evenly(t);
  };
  const before = tStart >= openNs ? 0 : read(flow.atOpen, openNs);
  // The count at the close where it was read: what is under way when sending stops is delivered later, perhaps after the close.
  const after = flow.tEnd !== null && flow.tEnd <= closeNs ? (flow.atClose ?? flow.total) : flow.atClose ?? (end <= closeNs && flow.total !== null ? flow.total : read(null, closeNs));
  return { value: before === null || after === null ? null : Math.max(0, after - before), interpolated };
}
