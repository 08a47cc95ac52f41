/** What the kernel knows of the TCP connections that a program of the traffic made, by the ports of the plan: INET_DIAG in both ends' nodes, and /proc/net/tcp for listeners. */

import * as fs from 'node:fs';
import type { AgentContext } from '../agent/context.js';
import { TcpLookups, addressHex, openDiag } from '../linux/inet-diag.js';
import type { TcpDiag } from '../linux/inet-diag.js';
import { close } from '../linux/libc.js';
import type { PlanFlow } from '../plan/plan.js';
import type { FlowDraft } from './flow-log.js';

export interface Connection { readonly plan: PlanFlow; readonly row: FlowDraft }

export class Connections {
  /** One diagnosis socket a node, opened when first needed. */
  private readonly sockets = new Map<string, number>();

  constructor(private readonly context: AgentContext) {}

  /** Fills in the rows' figures of an edge of the window, now; those of a connection that is not there stay as they are. */
  readEdge(connections: readonly Connection[], edge: 'warmup' | 'end'): void {
    this.ask(connections, 'dst', (row, socket) => {
      row[`bytes_at_${edge}`] = socket.bytesReceived - (socket.state === 8 ? 1 : 0); // CLOSE_WAIT: the FIN counts as one
    });
    this.ask(connections, 'src', (row, socket) => {
      row[`retransmits_at_${edge}`] = row.retransmits = socket.retransmits;
      row.bytes_sent = socket.bytesSent;
      row.packets_sent = socket.dataSegmentsOut;
    });
  }

  private ask(connections: readonly Connection[], end: 'src' | 'dst', take: (row: FlowDraft, socket: TcpDiag) => void): void {
    const nodes = new Map<string, Connection[]>();
    for (const each of connections) nodes.set(each.plan[end], [...(nodes.get(each.plan[end]) ?? []), each]);
    for (const [node, list] of nodes) {
      let fd = this.sockets.get(node);
      if (fd === undefined) {
        fd = this.context.inNode(node, openDiag);
        this.sockets.set(node, fd);
      }
      const lookups = new TcpLookups(fd);
      list.forEach(({ plan }, key) => {
        const [src, dst] = [addressHex(plan.srcAddress), addressHex(plan.dstAddress)];
        lookups.add(key, end === 'src'
          ? { source: src, sourcePort: plan.srcPort, destination: dst, destinationPort: plan.dstPort }
          : { source: dst, sourcePort: plan.dstPort, destination: src, destinationPort: plan.srcPort });
      });
      lookups.ask((key, socket) => take(list[key]!.row, socket), () => {});
    }
  }

  close(): void {
    for (const fd of this.sockets.values()) close(fd);
    this.sockets.clear();
  }
}

/** /proc/net/tcp and tcp6 of a node, one after the other: what `listens` reads. */
export const socketTable = (context: AgentContext, node: string): string =>
  context.inNode(node, () => ['tcp', 'tcp6'].map((name) => readIfThere(`/proc/self/net/${name}`)).join('\n'));

/** Whether /proc/net/tcp or tcp6 (or both, one after the other) has a listening socket on that port. */
export function listens(table: string, port: number): boolean {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  for (const line of table.split('\n')) {
    const [, local, , state] = line.trim().split(/\s+/);
    if (state === '0A' && local !== undefined && local.endsWith(suffix)) return true;
  }
  return false;
}

/** A file of /proc; empty when there is none. */
export function readIfThere(path: string): string {
  try {
    return fs.readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
