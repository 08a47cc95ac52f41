/**
 * An application: what runs at both ends of a TCP flow, opens its connections, writes and reads. One file each (builtin.ts, iperf3.ts, netperf.ts), a
 * line in registry.ts; TCP itself (simulator/tcp) knows none of them.
 */

import type { PlanFlow } from '../../testbed/plan/plan.js';
import type { Network } from '../network.js';
import type { TcpConnection } from '../tcp/connection.js';
import type { TcpModel } from '../tcp/sender.js';

export interface Application {
  /** The connection that carries the flow's data; null before it is opened. */
  readonly connection: TcpConnection | null;
  /** Payload bytes the receiving end has, without what the tool sends beside the flow's own. */
  readonly bytes: number;
  /** When the connection was made, ns, if the tool's kernel counterpart tells; null otherwise. */
  readonly connectedNs: number | null;
  /** The flow's time has come: once. */
  start(): void;
  /** Its stop time has come. */
  stop(): void;
  /** Why a flow that the end of the run cuts has failed; null: it was merely running. @param waitedNs since its start */
  cut(waitedNs: number): string | null;
  /** Gives all its timers back; packets still under way to it end unread. It does so itself after it has ended. */
  release(): void;
}

/** How a flow ended. */
export interface Ending {
  /** Why it failed; null: it is complete. */
  readonly failed: string | null;
  /** ns; null when it failed */
  readonly endNs: number | null;
}

export interface Stage {
  readonly network: Network;
  readonly model: TcpModel;
  readonly plan: PlanFlow;
  /** To be called once, when the flow has ended by itself; its figures are read then. */
  readonly ended: (ending: Ending) => void;
}

export type ApplicationKind = (stage: Stage) => Application;
