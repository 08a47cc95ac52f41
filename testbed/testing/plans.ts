/** Small plans made by hand for tests of set-up: the compiler is not involved. */

import type { Plan, PlanDirection, PlanLink, PlanNode, PlanQueue, PlanRoute, PlanWire } from '../plan/plan.js';

export const queue = (kind: string, params: PlanQueue['params'] = {}): PlanQueue => ({ kind, in: 'kernel', params });
export const wire = (delayNs: number, more: Partial<PlanWire> = {}): PlanWire => ({ delayNs, jitterNs: 0, loss: 0, duplicate: 0, reorder: 0, limitPackets: 10_000, ...more });
export function direction(name: string, more: Partial<PlanDirection> = {}): PlanDirection {
  const rateBps = more.rateBps ?? null;
  return { name, rateBps, shaper: rateBps === null ? null : 'htb', overheadBytes: 14, queue: rateBps === null ? null : queue('pfifo', { limit: 1000 }), wire: [], ...more };
}

export interface DumbbellOptions {
  readonly pairs?: number;
  readonly rateBps?: number;
  readonly accessBps?: number | null;
  readonly queue?: PlanQueue;
  /** On each receiving host's access link, towards the router: the ACK path. */
  readonly delayNs?: number;
  readonly six?: boolean;
  readonly mtuBytes?: number;
  readonly forward?: Partial<PlanDirection>;
  readonly reverse?: Partial<PlanDirection>;
  /** Routers in a row: 2 is a dumbbell, 3 a parking lot with hosts at its ends. */
  readonly routers?: number;
}

/** S[i] – R1 – … – Rn – D[i]; links `BL1` … between routers. Host i of the left: 10.1.i.1, of the right: 10.2.i.1. */
export function dumbbell({ pairs = 1, rateBps = 20e6, accessBps = 100e6, queue: q = queue('pfifo', { limit: 1000 }), delayNs = 0, six = false, mtuBytes = 1500, forward = {}, reverse = {}, routers = 2 }: DumbbellOptions = {}): Plan {
  const both = (four: string, sixes: string): string[] => [four, ...(six ? [sixes] : [])];
  const links: PlanLink[] = [];
  const nodes: PlanNode[] = [];
  const routes = new Map<string, PlanRoute[]>();
  const route = (node: string, to: string, via: string, device: string): void => { routes.set(node, [...(routes.get(node) ?? []), { to, via, device }]); };
  const access = (side: 'S' | 'D', router: string, index: number): void => {
    const host = `${side}[${index}]`;
    const net = side === 'S' ? 1 : 2;
    const [own, gateway] = [`10.${net}.${index}.1`, `10.${net}.${index}.2`];
    const [own6, gateway6] = [`fd00:${net}:${index}::1`, `fd00:${net}:${index}::2`];
    const device = `${side.toLowerCase()}${index}`;
    links.push({
      name: host, role: 'access', mtuBytes,
      a: { node: host, device: 'eth0', addresses: both(`${own}/24`, `${own6}/64`) }, b: { node: router, device, addresses: both(`${gateway}/24`, `${gateway6}/64`) },
      forward: direction(host, { rateBps: accessBps, wire: side === 'D' && delayNs > 0 ? [wire(delayNs)] : [] }), reverse: direction(`${host}.reverse`, { rateBps: accessBps }),
    });
    route(host, '0.0.0.0/0', gateway, 'eth0');
    if (six) route(host, '::/0', gateway6, 'eth0');
    nodes.push({ name: host, role: 'host', netns: `${side}.${index}`, routes: [] });
  };
  for (let index = 1; index <= routers; index++) nodes.push({ name: `R${index}`, role: 'router', netns: `R${index}`, routes: [] });
  for (let index = 0; index < pairs; index++) {
    access('S', 'R1', index);
    access('D', `R${routers}`, index);
  }
  for (let index = 1; index < routers; index++) {
    links.push({
      name: `BL${index}`, role: 'bottleneck', mtuBytes,
      a: { node: `R${index}`, device: 'right', addresses: both(`10.0.${index}.1/24`, `fd00:0:${index}::1/64`) }, b: { node: `R${index + 1}`, device: 'left', addresses: both(`10.0.${index}.2/24`, `fd00:0:${index}::2/64`) },
      forward: direction(`BL${index}`, { rateBps, queue: q, ...forward }), reverse: direction(`BL${index}.reverse`, { rateBps, ...reverse }),
    });
    route(`R${index}`, '10.2.0.0/16', `10.0.${index}.2`, 'right');
    route(`R${index + 1}`, '10.1.0.0/16', `10.0.${index}.1`, 'left');
    if (six) {
      route(`R${index}`, 'fd00:2::/32', `fd00:0:${index}::2`, 'right');
      route(`R${index + 1}`, 'fd00:1::/32', `fd00:0:${index}::1`, 'left');
    }
  }
  return {
    schema: 1, name: 'test', seed: 1, varied: {}, warmupNs: 0, durationNs: 10e9, links, flows: [], probes: [], events: [],
    nodes: nodes.map((node) => ({ ...node, routes: routes.get(node.name) ?? [] })),
    collect: { queueIntervalNs: null, socketIntervalNs: null, packets: false },
    tcp: { model: 'linux', hostSysctls: { 'net.ipv4.tcp_no_metrics_save': '1' }, routerSysctls: { 'net.ipv4.ip_forward': '1' } },
  };
}
