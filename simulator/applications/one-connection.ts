/** Applications that open one connection, write until they are done or stopped, and close it: they differ in how the other end reads. */

import { oughtToBeConnected, unansweredError } from '../../testbed/traffic/unanswered.js';
import { TcpConnection } from '../tcp/connection.js';
import type { Reading } from '../tcp/receiver.js';
import type { Application, Stage } from './application.js';

export class OneConnection implements Application {
  readonly connection: TcpConnection;

  constructor(private readonly stage: Stage, reading: Reading) {
    const { network, plan, model } = stage;
    this.connection = new TcpConnection(network, plan, model, { reading, bytes: plan.bytes, leadBytes: 0 }, () => this.over());
  }
  get bytes(): number { return this.connection.receiver.bytes; }
  get connectedNs(): number | null { return this.connection.sender.connected ? this.connection.sender.connectedNs : null; }

  start(): void { this.connection.sender.connect(); }
  stop(): void { this.connection.sender.stop(); }

  private over(): void {
    const { sender: { failed, endNs } } = this.connection;
    const { bytes } = this.stage.plan;
    const short = failed === null && bytes !== null && this.bytes !== bytes ? `${this.bytes} of ${bytes} bytes arrived` : null;
    this.stage.ended({ failed: failed ?? short, endNs: failed === null ? endNs : null });
    this.release();
  }

  cut(waitedNs: number): string | null {
    const { sender } = this.connection;
    const unanswered = !sender.connected && oughtToBeConnected(waitedNs, this.stage.plan.baseRttNs);
    sender.finished = true;
    return unanswered ? unansweredError(waitedNs) : null;
  }
  release(): void { this.connection.release(); }
}
