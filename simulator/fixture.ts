/** Small plans made by hand, for tests: senders S[i] — R1 = BL1 = R2 — receivers D[i]; delay on the ACK path at the receivers. */

import type { Plan, PlanDirection, PlanEvent, PlanFlow, PlanLink, PlanProbe, PlanQueue, PlanWire } from '../testbed/plan/plan.js';

export interface DumbbellOptions {
  readonly rateBps: number;
  readonly queue: PlanQueue;
  readonly pairs: number;
  /** Two-way propagation delay of pair i, all of it on the way back unless `forwardDelayNs` says otherwise. */
  readonly rttNs: number | ((pair: number) => number);
  /** Part of it on the bottleneck's wire. */
  readonly forwardDelayNs?: number;
  readonly seed?: number;
  readonly warmupNs?: number;
  readonly durationNs: number;
  readonly model?: 'linux' | 'classic';
  readonly overheadBytes?: number;
  readonly mtuBytes?: number;
  readonly flows: readonly Partial<PlanFlow>[];
  readonly probes?: readonly Partial<PlanProbe>[];
  readonly events?: readonly PlanEvent[];
  readonly queueIntervalNs?: number | null;
  readonly socketIntervalNs?: number | null;
  /** Extra behaviour of the bottleneck's wire. */
  readonly wire?: Partial<PlanWire>;
  readonly sysctls?: Readonly<Record<string, string>>;
}

const wire = (delayNs: number, more: Partial<PlanWire> = {}): PlanWire[] => (delayNs === 0 && Object.keys(more).length === 0 ? [] : [{ delayNs, jitterNs: 0, loss: 0, duplicate: 0, reorder: 0, limitPackets: 1e6, ...more }]);
const cable = (name: string, delayNs = 0): PlanDirection => ({ name, rateBps: null, shaper: null, overheadBytes: 14, queue: null, wire: wire(delayNs) });

/** A flow or probe i goes from S[i] to D[i] unless it names its pair by `src`. */
export function dumbbell(options: DumbbellOptions): Plan {
  const { pairs, durationNs, warmupNs = 0, overheadBytes = 14, mtuBytes = 1500, forwardDelayNs = 0 } = options;
  const rtt = (i: number): number => (typeof options.rttNs === 'number' ? options.rttNs : options.rttNs(i));
  const endNs = warmupNs + durationNs;
  const nodes: Plan['nodes'][number][] = [
    { name: 'R1', role: 'router', netns: 'R1', routes: [{ to: '10.2.0.0/16', via: '10.0.0.2', device: 'bl1' }] },
    { name: 'R2', role: 'router', netns: 'R2', routes: [{ to: '10.1.0.0/16', via: '10.0.0.1', device: 'bl1' }] },
  ];
  const links: PlanLink[] = [{
    name: 'BL1', role: 'bottleneck', mtuBytes,
    a: { node: 'R1', device: 'bl1', addresses: ['10.0.0.1/24'] }, b: { node: 'R2', device: 'bl1', addresses: ['10.0.0.2/24'] },
    forward: { name: 'BL1', rateBps: options.rateBps, shaper: 'htb', overheadBytes, queue: options.queue, wire: wire(forwardDelayNs, options.wire) },
    reverse: cable('BL1.reverse'),
  }];
  for (let i = 0; i < pairs; i++) {
    for (const [side, net, router] of [['S', 1, 'R1'], ['D', 2, 'R2']] as const) {
      const name = `${side}[${i}]`;
      nodes.push({ name, role: 'host', netns: `${side}.${i}`, routes: [{ to: '0.0.0.0/0', via: `10.${net}.${i}.1`, device: 'eth0' }] });
      links.push({
        name, role: 'access', mtuBytes,
        a: { node: name, device: 'eth0', addresses: [`10.${net}.${i}.2/24`] }, b: { node: router, device: `p${side}${i}`, addresses: [`10.${net}.${i}.1/24`] },
        forward: cable(name, side === 'D' ? rtt(i) - forwardDelayNs : 0), reverse: cable(`${name}.reverse`),
      });
    }
  }
  const pairOf = (src: string | undefined, i: number): number => (src === undefined ? i % pairs : Number(/\d+/.exec(src)![0]));
  return {
    schema: 1, name: 'fixture', seed: options.seed ?? 1, varied: {}, warmupNs, durationNs, nodes, links,
    flows: options.flows.map((flow, i): PlanFlow => {
      const pair = pairOf(flow.src, i);
      return {
        id: i, class: 'long', kind: 'bulk', transport: 'tcp', tool: 'builtin', src: `S[${pair}]`, dst: `D[${pair}]`, srcAddress: `10.1.${pair}.2`, dstAddress: `10.2.${pair}.2`,
        srcPort: 20000 + i, dstPort: 9000, startNs: 0, stopNs: flow.bytes === undefined || flow.bytes === null ? endNs : null, bytes: null, cc: 'reno', ecn: false, rateBps: null, packetBytes: null, bursts: null, toolArgs: [],
        baseRttNs: rtt(pair), ...flow,
      };
    }),
    probes: (options.probes ?? []).map((probe, i): PlanProbe => {
      const pair = pairOf(probe.src, i);
      return {
        id: i, name: 'probe', tool: 'builtin', src: `S[${pair}]`, dst: `D[${pair}]`, srcAddress: `10.1.${pair}.2`, dstAddress: `10.2.${pair}.2`, port: 7,
        startNs: 0, stopNs: endNs, intervalNs: 10e6, sizeBytes: 100, ...probe,
      };
    }),
    events: options.events ?? [],
    collect: { queueIntervalNs: options.queueIntervalNs ?? null, socketIntervalNs: options.socketIntervalNs ?? null, packets: true },
    tcp: { hostSysctls: options.sysctls ?? {}, routerSysctls: {}, model: options.model ?? 'linux' },
  };
}

export const queue = (kind: string, params: PlanQueue['params'] = {}): PlanQueue => ({ kind, in: 'kernel', params });
