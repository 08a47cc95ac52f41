/**
 * A TCP flow by iperf3 (iperf3.ts): its cookie goes ahead of the data; then 128 KiB are written at a time as long as the send buffer takes them, or until there are
 * enough bytes at the end of a call of write(). The server reads at each wake-up, and resets what comes after it has closed.
 * Difference: a write that ends within a segment is never sent short of the next.
 */

import { blockBytes } from '../../testbed/traffic/iperf3-settings.js';
import { TcpConnection } from '../tcp/connection.js';
import type { Application, Stage } from './application.js';
import { Iperf3Test, cookieBytes, type Iperf3Stream } from './iperf3.js';

class Iperf3Tcp implements Application, Iperf3Stream {
  connection: TcpConnection | null = null;
  /** iperf3 does not tell. */
  readonly connectedNs = null;
  private readonly test: Iperf3Test;

  constructor(private readonly stage: Stage) {
    this.test = new Iperf3Test(stage.network, stage.plan, this, stage.ended);
  }

  get bytes(): number { return this.connection === null ? 0 : Math.max(0, this.connection.receiver.bytes - cookieBytes); }
  start(): void { this.test.start(); }
  /** One of whole seconds ends by itself; others are interrupted then. */
  stop(): void {}
  cut(): string | null {
    if (this.connection !== null) this.connection.sender.finished = true;
    return null;
  }

  connect(connected: () => void, accepted: () => void, failed: (why: string) => void): void {
    const { network, plan, model } = this.stage;
    const connection = new TcpConnection(network, plan, model, { reading: { lowWaterBytes: 1, roomBytes: 0, readBytes: blockBytes, atOnce: false }, bytes: null, leadBytes: cookieBytes }, () => { if (connection.sender.failed !== null) failed(connection.sender.failed); });
    this.connection = connection;
    connection.sender.onConnect = connected;
    connection.receiver.onRead = (bytes) => {
      if (bytes < cookieBytes) return;
      connection.receiver.onRead = null;
      accepted();
    };
    connection.sender.connect();
  }

  begin(_testNs: number, enough: () => void): void {
    const { sender } = this.connection!;
    const { bytes } = this.stage.plan;
    if (bytes === null) {
      sender.begin(null);
      return;
    }
    sender.onWrite = () => {
      if (sender.bytesWritten - cookieBytes < bytes) return;
      sender.onWrite = null;
      enough();
    };
    sender.begin(Math.ceil(bytes / blockBytes) * blockBytes);
  }
  hold(writable: () => void): void {
    const { sender } = this.connection!;
    sender.onWritable = writable;
    sender.hold();
  }
  /** What it wrote still goes out. */
  leave(): void { this.connection?.sender.stop(); }
  close(): void { this.connection?.receiver.close(); }

  free(): void { this.connection?.release(); }
  release(): void { this.test.release(); }
}

export const iperf3Tcp = (stage: Stage): Application => new Iperf3Tcp(stage);
