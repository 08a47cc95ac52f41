/**
 * sysctls pinned in every host and router, so that a run depends on the scenario and not on the machine it is made on.
 *
 * Buffers: the largest receive and send buffer is four times what a flow can have under way, that is, bandwidth × RTT
 * of the fastest path plus every queue on it when full; the factor covers what Linux counts beside the payload
 * (skb truesize, and half of rcvbuf held back, tcp_win_from_space). At least Linux's own defaults.
 *
 * ECN (tcp_ecn, Documentation/networking/ip-sysctl.rst): 0 never, 1 ask and accept, 2 accept only. Asking is a matter of
 * the sending host. All classes with ECN: 1 everywhere; none: 0; some: 2, and 1 on the hosts that send those.
 * DCTCP asks by itself (TCP_CONG_NEEDS_ECN) but is only accepted where tcp_ecn is not 0.
 */

import { asksForEcn, defaults, route, sideOf, type Expanded, type Host, type Tree } from '../scenario/expand.js';
import type { LinkFields } from '../scenario/link.js';
import type { Resolved } from '../scenario/schema.js';
import type { PlanQueue, PlanTcp } from './plan.js';
import { ephemeralRange } from './ports.js';

const MiB = 1 << 20;

/** The most bytes a queue can hold, roughly: its limit, or the default of its kind. */
function queueBytes(queue: PlanQueue | undefined, mtu: number): number {
  const limit = queue?.params['limit'];
  const inBytes = queue?.kind === 'bfifo' || queue?.kind === 'red';
  if (typeof limit === 'number') return inBytes ? limit : limit * mtu;
  if (typeof limit === 'string' && /^\d+p$/.test(limit)) return Number.parseInt(limit, 10) * mtu;
  // net/sched: sch->limit of fq_codel, fq_pie and fq is 10240 or 10000 packets; of the others 1000 (or txqueuelen, 1000).
  return (queue !== undefined && /^(?:fq|cake|dualpi2)/.test(queue.kind) ? 10_240 : 1000) * mtu;
}

/** Largest receive and send buffer, bytes. */
export function bufferBytes(scenario: Pick<Resolved, 'topology'>, expanded: Expanded, parents: readonly Tree[], baseRttNs: (a: Host, b: Host) => number, fastestBps: number): number {
  let most = 0;
  for (const { src, dst } of expanded.pairs.values()) {
    for (const [from, to] of [[src, dst], [dst, src]] as const) {
      let rate = Infinity;
      let queued = 0;
      const pass = (fields: LinkFields, side: 'forward' | 'reverse'): void => {
        const r = sideOf(fields.rate, side);
        if (typeof r !== 'number') return;
        rate = Math.min(rate, r);
        queued += queueBytes(sideOf(fields.queue, side), fields.mtu ?? scenario.topology.mtu ?? defaults.mtuBytes);
      };
      pass(from.fields, 'forward');
      for (const { link, side } of route({ links: expanded.links, parents }, from.router, to.router)) pass(link.fields, side);
      pass(to.fields, 'reverse');
      most = Math.max(most, (Math.min(rate, fastestBps) / 8) * (baseRttNs(src, dst) / 1e9) + queued);
    }
  }
  return Math.min(512 * MiB, Math.max(6 * MiB, Math.ceil((4 * most) / MiB) * MiB));
}

/** Hosts that must ask for ECN by tcp_ecn, when others must not; null when all hosts are alike. */
function ecnHosts(expanded: Expanded): { readonly everywhere: '0' | '1' | '2'; readonly asking: ReadonlySet<Host> } {
  const tcp = expanded.classes.filter((c) => c.cc !== null && c.pairs.length > 0);
  const asking = new Set<Host>();
  if (!tcp.some((c) => c.ecn)) return { everywhere: '0', asking };
  if (tcp.every((c) => c.ecn)) return { everywhere: '1', asking };
  for (const c of tcp) if (c.ecn && !asksForEcn(c.cc)) for (const { src } of c.pairs) asking.add(src);
  return { everywhere: '2', asking };
}

/** The plan's `tcp`, and the hosts with a setting of their own. */
export function tcpSettings(scenario: Pick<Resolved, 'topology' | 'tcp'>, expanded: Expanded, buffer: number): { readonly tcp: PlanTcp; readonly own: ReadonlyMap<Host, Readonly<Record<string, string>>> } {
  const ip = scenario.topology.ip ?? 4;
  const { everywhere, asking } = ecnHosts(expanded);
  const everyNode: Record<string, string> = ip === 6
    ? { // No waiting for duplicate address detection, no address or route from anyone else.
        'net.ipv6.conf.all.disable_ipv6': '0', 'net.ipv6.conf.default.disable_ipv6': '0',
        'net.ipv6.conf.all.accept_dad': '0', 'net.ipv6.conf.default.accept_dad': '0', 'net.ipv6.conf.default.dad_transmits': '0',
        'net.ipv6.conf.all.accept_ra': '0', 'net.ipv6.conf.default.accept_ra': '0', 'net.ipv6.conf.default.autoconf': '0',
        'net.ipv6.conf.default.router_solicitations': '0',
      }
    : { // An interface with IPv6 sends router solicitations and MLD reports through the queues under test.
        'net.ipv6.conf.all.disable_ipv6': '1', 'net.ipv6.conf.default.disable_ipv6': '1',
      };
  everyNode['net.ipv4.conf.all.rp_filter'] = '0';
  everyNode['net.ipv4.conf.default.rp_filter'] = '0';
  const hostSysctls: Record<string, string> = {
    ...everyNode,
    'net.ipv4.ip_forward': '0',
    'net.ipv4.ip_local_port_range': ephemeralRange,
    'net.ipv4.tcp_ecn': everywhere,
    'net.ipv4.tcp_moderate_rcvbuf': '1',
    'net.ipv4.tcp_no_metrics_save': '1',
    'net.ipv4.tcp_rmem': `4096\t131072\t${buffer}`,
    'net.ipv4.tcp_sack': '1',
    'net.ipv4.tcp_slow_start_after_idle': '1',
    'net.ipv4.tcp_timestamps': '1',
    'net.ipv4.tcp_window_scaling': '1',
    'net.ipv4.tcp_wmem': `4096\t16384\t${buffer}`,
    ...scenario.tcp?.sysctls,
  };
  const routerSysctls: Record<string, string> = { ...everyNode, 'net.ipv4.ip_forward': '1', ...(ip === 6 ? { 'net.ipv6.conf.all.forwarding': '1' } : {}) };
  return {
    tcp: { hostSysctls, routerSysctls, model: scenario.tcp?.model ?? 'linux' },
    own: new Map([...asking].map((host) => [host, { 'net.ipv4.tcp_ecn': '1' }])),
  };
}

