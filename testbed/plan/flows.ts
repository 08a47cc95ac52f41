/** The plan's flows: every class's drafts, with hosts, addresses and ports. Each flow draws from a stream of its own. */

import { pairId, type Expanded, type Host } from '../scenario/expand.js';
import type { Problem } from '../scenario/problem.js';
import { trafficKinds } from '../scenario/traffic/registry.js';
import type { PlanFlow } from './plan.js';
import type { Ports } from './ports.js';
import { stream } from './randomness.js';
import type { PairDelay } from './wire.js';

/** Flows and bursts of one plan. */
const mostFlows = 1_000_000;

class TooMany extends Error {}

/** @throws what `fail` makes of a problem: too many flows, no port left */
export function planFlows(expanded: Expanded, seed: number, endNs: number, delays: ReadonlyMap<string, PairDelay>, addressOf: (host: Host) => string, ports: Ports, fail: (problem: Problem) => Error): PlanFlow[] {
  const flows: PlanFlow[] = [];
  let made = 0;
  const count = (): void => { if (++made > mostFlows) throw new TooMany(); };
  for (const c of expanded.classes) {
    const kind = trafficKinds.get(c.spec.kind)!;
    try {
      for (const [p, { src, dst }] of c.pairs.entries()) {
        for (let n = 0; n < (c.spec.flows ?? 1); n++) {
          const random = stream(seed, 'traffic', c.name, String(p), String(n));
          for (const draft of kind.draft(c.spec, { random, endNs, count })) {
            const taken = ports.next(src, dst, c.tool, kind.transport, c.cc);
            if (!taken) throw fail({ path: ['traffic', c.name, 'tool'], message: `${dst.name} has no port left for another ${c.tool} server; expected tool: builtin, or fewer flows` });
            flows.push({
              id: flows.length, class: c.name, kind: draft.kind, transport: kind.transport, tool: c.tool,
              src: src.name, dst: dst.name, srcAddress: addressOf(src), dstAddress: addressOf(dst), srcPort: taken.srcPort, dstPort: taken.dstPort,
              startNs: draft.startNs, stopNs: draft.stopNs, bytes: draft.bytes, cc: c.cc, ecn: c.ecn, rateBps: draft.rateBps, packetBytes: draft.packetBytes,
              bursts: draft.bursts, ...(draft.chunks === undefined ? {} : { chunks: draft.chunks }), toolArgs: c.spec.args ?? [], baseRttNs: delays.get(pairId(src, dst))!.baseRttNs,
            });
          }
        }
      }
    } catch (error) {
      if (!(error instanceof TooMany)) throw error;
      throw fail({ path: ['traffic', c.name], message: `more than ${mostFlows} flows and bursts would be made; expected fewer arrivals, a shorter run, or longer bursts` });
    }
  }
  return flows;
}
