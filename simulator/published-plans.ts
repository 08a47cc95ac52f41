/** The set-ups of results/article-c-simulator-2026.json as plans, and the figures measured in a run of one. For the test that compares. */

import type { Plan, PlanFlow, PlanQueue } from '../testbed/plan/plan.js';
import { dumbbell, queue } from './fixture.js';
import { Random } from './random.js';
import type { SimulateOptions } from './simulate.js';
import { quantile, withRun } from './testing.js';

export const queues: Readonly<Record<string, PlanQueue>> = {
  'drop-tail': queue('pfifo', { limit: 1000 }),
  // The article's RED is Floyd and Jacobson's in floating point, not Linux's (which ages its average differently over idle time).
  red: queue('red-classic', { limit: 1000, min: 20, max: 60, w: 0.002, probability: 0.02, avpkt: 1500 }),
  codel: queue('codel', { limit: 1000 }),
  // A quantum of one packet as the link counts it, 1500 bytes; Linux's own would be 1514, and a flow would save 14 bytes a turn.
  fq_codel: queue('fq_codel', { limit: 10240, quantum: 1500 }),
};

export type Workload = '1 long' | '4 long' | '32 long' | 'mixed';

/** 20 Mbit/s, RTT 50 ms drawn 0.9–1.1 a flow, 60 s of which the first 10 s are left out. */
export function publishedPlan(queueName: string, workload: Workload, seed: number): Plan {
  const random = new Random(seed, 'published');
  const long = workload === 'mixed' ? 4 : Number(workload.split(' ')[0]);
  const endNs = 60e9;
  const rtts: number[] = [];
  const pair = (): number => rtts.push(Math.round(50e6 * (0.9 + 0.2 * random.fraction()))) - 1;
  const flows: Partial<PlanFlow>[] = [];
  for (let i = 0; i < long; i++) flows.push({ src: `S[${pair()}]`, startNs: Math.round(random.fraction() * 1e9) });
  if (workload === 'mixed') {
    for (let t = -Math.log(1 - random.fraction()) / 4; t < endNs / 1e9; t += -Math.log(1 - random.fraction()) / 4) {
      // 64 hosts share the short flows, so that a thousand flows do not need a thousand hosts.
      const host = long + (flows.length % 64);
      while (rtts.length <= host) pair();
      flows.push({ class: 'short', kind: 'short', src: `S[${host}]`, startNs: Math.round(t * 1e9), bytes: 40 * 1448, srcPort: 20000 + flows.length });
    }
  }
  while (workload === 'mixed' && rtts.length < long + 65) pair();
  return dumbbell({
    rateBps: 20e6, overheadBytes: 0, queue: queues[queueName]!, pairs: rtts.length, rttNs: (i) => rtts[i]!, seed, warmupNs: 10e9, durationNs: 50e9, model: 'classic', flows,
    probes: workload === 'mixed' ? [{ src: `S[${long}]`, intervalNs: 10e6, sizeBytes: 100 }] : [],
  });
}

export interface Figures { readonly utilisation: number; readonly medianQueueing: number; readonly probeP99: number; readonly fctMedian: number; readonly fctP95: number }

/**
 * Utilisation in %, queueing delays in ms, completion times in ms of short flows that started in the window, from the
 * end of their handshake (the article's flows have none).
 */
export function measure(plan: Plan, options: Partial<SimulateOptions> = {}): Figures {
  return withRun(plan, (result) => {
    const { t_enqueue: enqueued, t_dequeue: dequeued, size, flow } = result.columns('packets-BL1.rec', 't_enqueue', 't_dequeue', 'size', 'flow');
    const sojourn = new Float64Array(size.length);
    const probe = new Float64Array(size.length);
    let packets = 0;
    let probes = 0;
    let bits = 0;
    for (let i = 0; i < size.length; i++) {
      const from = enqueued[i]!;
      const to = dequeued[i]!;
      if (to >= 10e9 && to < 60e9) bits += size[i]! * 8;
      if (!(from >= 10e9 && from < 60e9 && to >= 0)) continue;
      if (flow[i]! < 0) probe[probes++] = (to - from) / 1e6;
      else sojourn[packets++] = (to - from) / 1e6;
    }
    const fct = result.flows.filter(({ id, t_start: start, status }) => plan.flows[id]!.bytes !== null && start! >= 10e9 && status === 'complete').map((row) => (row.t_end! - row.t_connected!) / 1e6);
    return {
      utilisation: (100 * bits) / (20e6 * 50), medianQueueing: quantile(sojourn.subarray(0, packets), 0.5), probeP99: quantile(probe.subarray(0, probes), 0.99),
      fctMedian: quantile(fct, 0.5), fctP95: quantile(fct, 0.95),
    };
  }, options);
}
