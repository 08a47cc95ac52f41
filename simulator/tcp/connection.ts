/** A TCP connection of a flow that carries data one way: a sender and a receiver, and the routes between them. */

import type { PlanFlow } from '../../testbed/plan/plan.js';
import type { Network } from '../network.js';
import { Random } from '../random.js';
import type { Route } from '../route.js';
import { congestionControls } from './controls.js';
import { TcpReceiver, type Reading } from './receiver.js';
import { TcpSender, type TcpModel } from './sender.js';

/** What the applications at both ends do with it. */
export interface Use {
  readonly reading: Reading;
  /** Payload to send, bytes; null = until `stop`. Of no meaning with `leadBytes`. */
  readonly bytes: number | null;
  /** The application writes so many bytes first, and the rest when it calls `begin` of the sender; 0 = it writes all at once. */
  readonly leadBytes: number;
}

export class TcpConnection {
  readonly sender: TcpSender;
  readonly receiver: TcpReceiver;
  private readonly routes: readonly [Route, Route];

  /** @param onEnd called once, when everything was acknowledged and the peer's FIN arrived, or when it failed */
  constructor(network: Network, readonly plan: PlanFlow, model: TcpModel, use: Use, onEnd: () => void) {
    const key = (a: string, p: number, b: string, q: number): string => `${a} ${p} ${b} ${q} tcp`;
    const out = network.route(plan.src, plan.srcAddress, plan.dstAddress, plan.id, true, key(plan.srcAddress, plan.srcPort, plan.dstAddress, plan.dstPort));
    const back = network.route(plan.dst, plan.dstAddress, plan.srcAddress, plan.id, false, key(plan.dstAddress, plan.dstPort, plan.srcAddress, plan.srcPort));
    const v6 = plan.srcAddress.includes(':');
    const cc = congestionControls.get(plan.cc!)!(new Random(network.plan.seed, `flow ${plan.id} cc`));
    this.sender = new TcpSender(network, out, model, cc, plan.ecn, v6, use.bytes, onEnd, use.leadBytes);
    this.receiver = new TcpReceiver(network, back, this.sender.mss, model, plan.ecn, cc.needsEcn, v6, use.reading, use.leadBytes);
    out.sink = this.receiver;
    back.sink = this.sender;
    this.routes = [out, back];
  }

  /** Gives its timers back; packets still under way to it end unread. */
  release(): void {
    for (const route of this.routes) route.sink = null;
    this.sender.release();
    this.receiver.release();
  }
}
