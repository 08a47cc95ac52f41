/**
 * The interface of a kind of traffic: what a user writes for it and the flows it becomes. One file a kind and one
 * line in registry.ts. Everything random is drawn here, from the flow's own stream, at compile time.
 */

import { z } from 'zod';
import type { PlanFlow } from '../../plan/plan.js';
import type { Random } from '../../plan/randomness.js';
import { zHostList } from '../hosts.js';
import { zRtt, zTimeDistribution } from '../quantity.js';
import { zSize, zTime } from '../../units.js';

/** One flow before it has hosts, addresses and ports. Times ns from the start of the run. */
export interface FlowDraft {
  readonly kind: PlanFlow['kind'];
  readonly startNs: number;
  readonly stopNs: number | null;
  readonly bytes: number | null;
  readonly rateBps: number | null;
  readonly packetBytes: number | null;
  readonly bursts: PlanFlow['bursts'];
  readonly chunks?: PlanFlow['chunks'];
}

export interface DraftContext {
  readonly random: Random;
  /** End of the measurement window, ns: nothing starts at or after it, nothing is sent after it. */
  readonly endNs: number;
  /** Call for every flow, and every burst, before it is made. @throws ScenarioError beyond the limit of a plan */
  count(): void;
}

export interface TrafficKind {
  readonly kind: string;
  readonly transport: 'tcp' | 'udp';
  /** Sends as fast as TCP lets it: counted for the choice of tool, and the delay of an `rtt` is kept off its sender. */
  readonly bulk: boolean;
  readonly schema: z.ZodObject;
  /** The flows of one pair of hosts and one of its `flows`. @param traffic what `schema` made */
  draft(traffic: unknown, context: DraftContext): FlowDraft[];
}

/** Keys every kind has. */
export const commonFields = {
  from: zHostList.meta({ description: 'Sending hosts: S1, S1[0], S1[0..1], or a list of these.' }),
  to: zHostList.meta({ description: 'Receiving hosts. Lists of equal length pair one to one; a single host is repeated.' }),
  flows: z.int({ error: 'expected a whole number from 1 to 10000' }).min(1, { error: 'expected a whole number from 1 to 10000' }).max(10_000, { error: 'expected a whole number from 1 to 10000' })
    .optional().meta({ description: 'Independent flows (or arrival processes) a pair. Default: 1.' }),
  rtt: zRtt.optional().meta({ description: 'Round-trip time of each pair of hosts without queueing: fixed, or uniform(a, b) drawn once a pair. Default: the delays of the path.' }),
  ecn: z.boolean().optional().meta({ description: 'Send with ECN. Default: false, except for congestion controls that need it (dctcp, prague).' }),
  start: zTimeDistribution.optional().meta({ description: 'When it starts, from the start of the run; drawn once a flow. Default: 0s.' }),
  stop: zTime.optional().meta({ description: 'When it stops. Default: the end of the measurement window.' }),
  tool: z.string().optional().meta({ description: 'What sends it: builtin or iperf3. Default: iperf3 for bulk up to 16 bulk flows in all, otherwise builtin; builtin for dctcp; flent for flent.' }),
  args: z.array(z.string().max(200), { error: 'expected a list of arguments, such as ["--set-mss", "1000"]' }).max(50).optional().meta({ description: 'Extra arguments for the tool (not for builtin).' }),
};

const ccWords = "the kernel's name of a congestion control, such as cubic, reno, bbr or dctcp";
export const tcpFields = {
  // TCP_CA_NAME_MAX is 16 with the final zero (include/net/tcp.h).
  cc: z.string({ error: `expected ${ccWords}` }).regex(/^[a-z][a-z0-9_-]{0,14}$/, { error: `expected ${ccWords}` }).optional().meta({ description: "TCP congestion control, by Linux's name. Default: cubic." }),
};

const packetWords = 'an IP packet from 64B to 9000B, such as 200B';
export const zPacket = zSize.refine((bytes) => bytes >= 64 && bytes <= 9000, { error: `expected ${packetWords}` });

/** What every schema made of `commonFields` yields, for readers that do not ask the kind. */
export type CommonTraffic = z.output<z.ZodObject<typeof commonFields>> & { readonly kind: string; readonly cc?: string | undefined };

/** Binds `draft` to the type its own schema yields; the registry holds kinds of different types. */
export function defineKind<S extends z.ZodObject>(kind: Omit<TrafficKind, 'schema' | 'draft'> & { schema: S; draft(traffic: z.output<S>, context: DraftContext): FlowDraft[] }): TrafficKind {
  return { ...kind, draft: (traffic, context) => kind.draft(traffic as z.output<S>, context) };
}

/** Start of a flow and end of its sending, ns; null when it would never send. */
export function span(traffic: Pick<CommonTraffic, 'start' | 'stop'>, context: DraftContext): readonly [number, number] | null {
  const start = traffic.start === undefined ? 0 : Math.round(context.random.draw(traffic.start));
  const stop = Math.min(traffic.stop ?? context.endNs, context.endNs);
  return start < stop ? [start, stop] : null;
}
