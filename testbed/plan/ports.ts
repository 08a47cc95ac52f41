/**
 * Ports. Every flow has its own (source, source port, destination, destination port), also all flows that ever
 * were in the run, so that a record of a packet always names one flow and no port is waited for in TIME_WAIT.
 *
 *   source ports   10000 … 59999, each once a host; after 50000 flows again, towards the next listening port
 *   listening      2000 … built-in TCP (2500 … with a congestion control whose receiver takes part, such as DCTCP), 3000 … built-in UDP, 5201 … iperf3 (one a server), 9000 … probes
 *   ephemeral      61000 … 65535, by sysctl: what iperf3 takes for its control connection is never one of ours
 */

import { asksForEcn, type Host } from '../scenario/expand.js';

export const ephemeralRange = '61000\t65535';
const firstSource = 10_000;
const sources = 50_000;
const iperf3Ports = 9000 - 5201;

export class Ports {
  private readonly sent = new Map<Host, number>();
  private readonly servers = new Map<Host, number>();

  /** @returns undefined when the receiving host has no port left for another iperf3 server */
  next(src: Host, dst: Host, tool: string, transport: 'tcp' | 'udp', cc: string | null): { readonly srcPort: number; readonly dstPort: number } | undefined {
    const n = this.sent.get(src) ?? 0;
    this.sent.set(src, n + 1);
    const srcPort = firstSource + (n % sources);
    if (tool === 'builtin') return { srcPort, dstPort: (transport === 'udp' ? 3000 : asksForEcn(cc) ? 2500 : 2000) + Math.floor(n / sources) };
    const server = this.servers.get(dst) ?? 0;
    if (server >= iperf3Ports) return undefined;
    this.servers.set(dst, server + 1);
    return { srcPort, dstPort: 5201 + server };
  }
}

export const probePort = (id: number): number => 9000 + id;
