/**
 * iperf3 3.12 (Debian 12) as the kernel engine runs it in virtual time: a client and a server (`-s -1`) for each flow. A control connection first: the
 * cookie, the server's states of one byte, the parameters as JSON; then the data connection with the cookie ahead of its data, which begin when
 * the server says TEST_RUNNING. The client writes 128 KiB at a time until its time is over or enough was written, says TEST_END, and the
 * server closes the data connection there and then (what still comes is answered by RST); results are exchanged, and the client's end is the flow's.
 * While it waits for the server with a stream it could write to, iperf3 polls, which kernel/patient.c makes it do at some distance (`Patience`).
 * Differences: the cookie and the writes that end within a segment are never sent short of one between two writes; more than one stream (-P) and other
 * arguments of the user's are not looked at.
 */

import { noFlow } from '../../testbed/records/packet-columns.js';
import { blockBytes, interruptedNs, wholeSeconds } from '../../testbed/traffic/iperf3-times.js';
import { Alarm } from '../alarm.js';
import { TcpConnection } from '../tcp/connection.js';
import { Dialogue } from '../tcp/dialogue.js';
import type { Application, Stage } from './application.js';
import { Patience } from './patience.js';

const cookieBytes = 37;
const lengthBytes = 4;
/** Its results as JSON, bytes: 230 and 268 as seen; the digits of its figures vary by a few. */
const resultBytes = { client: 230, server: 268 } as const;

/** What the client is at; in this order. */
const phase = { parameters: 0, streams: 1, start: 2, running: 3, ending: 4, results: 5, display: 6, over: 7 } as const;

/** The parameters as the client sends them (send_parameters), bytes. */
function parameterBytes({ plan }: Stage): number {
  return JSON.stringify({
    tcp: true, omit: 0, time: plan.bytes === null ? wholeSeconds(plan) : 0, num: plan.bytes ?? 0, blockcount: 0, parallel: 1, len: blockBytes, pacing_timer: 1000,
    ...(plan.cc === null ? {} : { congestion: plan.cc }), client_version: '3.12',
  }).length;
}

class Iperf3 implements Application {
  connection: TcpConnection | null = null;
  /** iperf3 does not tell. */
  readonly connectedNs = null;
  private readonly control: Dialogue;
  private phase: number = phase.parameters;
  private readonly patience: Patience;
  /** The time told with -t is over. */
  private readonly clock: Alarm;
  private readonly interruption: Alarm;
  /** The client was interrupted, or ended: its time, ns. */
  private leftNs: number | null = null;
  private awaitedByServer = 0;
  private hasEnded = false;
  private released = false;

  constructor(private readonly stage: Stage) {
    const { network, plan } = stage;
    const v6 = plan.srcAddress.includes(':');
    const port = `control ${plan.id}`;
    const out = network.route(plan.src, plan.srcAddress, plan.dstAddress, noFlow, true, `${plan.srcAddress} ${port} ${plan.dstAddress} ${plan.dstPort} tcp`);
    const back = network.route(plan.dst, plan.dstAddress, plan.srcAddress, noFlow, false, `${plan.dstAddress} ${plan.dstPort} ${plan.srcAddress} ${port} tcp`);
    this.control = new Dialogue(network, out, back, v6, plan.ecn);
    const { client, server } = this.control;
    client.connected = () => client.say(cookieBytes);
    client.failed = (why) => this.fail(why);
    client.readable = () => this.patience.arrived();
    server.failed = client.failed;
    server.readable = () => {
      for (let bytes = server.read(); bytes !== null; bytes = server.read()) this.serverReads(bytes);
    };
    this.patience = new Patience(network.events, () => {
      const bytes = client.read();
      if (bytes !== null) this.clientReads(bytes);
      return bytes !== null;
    });
    this.clock = new Alarm(network.events, () => this.testEnd());
    this.interruption = new Alarm(network.events, () => this.interrupt());
  }

  get bytes(): number { return this.connection === null ? 0 : Math.max(0, this.connection.receiver.bytes - cookieBytes); }

  start(): void {
    this.control.client.connect();
    const atNs = interruptedNs(this.stage.plan);
    if (atNs !== null) this.interruption.set(atNs);
  }
  /** One of whole seconds ends by itself; others are interrupted then. */
  stop(): void {}

  // ---- The server: what it reads, in turn; the last of each exchange is answered. ----

  private serverReads(bytes: number): void {
    const { server } = this.control;
    if (bytes === 0) return;
    switch (this.awaitedByServer++) {
      case 0: server.say(1); break; // the cookie: PARAM_EXCHANGE
      case 1: break; // the parameters' length
      case 2: server.say(1); break; // CREATE_STREAMS
      case 3: this.testEnded(); break; // TEST_END or CLIENT_TERMINATE
      case 4: break; // the results' length
      case 5:
        server.say(lengthBytes);
        server.say(resultBytes.server);
        server.say(1); // DISPLAY_RESULTS
        break;
      default: server.close(); // IPERF_DONE
    }
  }

  /** It has accepted the data connection and read its cookie: TEST_START, TEST_RUNNING. */
  private streamAccepted(): void {
    this.control.server.say(1);
    this.control.server.say(1);
  }

  private testEnded(): void {
    this.connection!.receiver.close();
    if (this.leftNs !== null) {
      this.end(null, this.leftNs);
      this.release();
      return;
    }
    this.control.server.say(1); // EXCHANGE_RESULTS
  }

  // ---- The client ----

  private clientReads(bytes: number): void {
    const { client } = this.control;
    const { network, plan } = this.stage;
    if (bytes === 0) {
      this.release(); // the server has closed too
      return;
    }
    switch (this.phase) {
      case phase.parameters:
        client.say(lengthBytes);
        client.say(parameterBytes(this.stage));
        this.phase = phase.streams;
        break;
      case phase.streams:
        this.phase = phase.start;
        this.connect();
        break;
      case phase.start:
        if (plan.bytes === null) this.clock.set(network.events.now + wholeSeconds(plan) * 1e9);
        this.phase = phase.running;
        break;
      case phase.running:
        this.patience.rest();
        this.run();
        break;
      case phase.ending: // EXCHANGE_RESULTS
        client.say(lengthBytes);
        client.say(resultBytes.client);
        this.patience.rest();
        this.phase = phase.results;
        break;
      case phase.results: // their length, and then the results, are waited for
        if (bytes === lengthBytes) break;
        this.patience.spin();
        this.phase = phase.display;
        break;
      case phase.display: // DISPLAY_RESULTS
        client.say(1); // IPERF_DONE
        client.close();
        this.phase = phase.over;
        this.end(null, network.events.now);
        this.connection?.release();
        break;
      default:
    }
  }

  private connect(): void {
    const { network, plan, model } = this.stage;
    const connection = new TcpConnection(network, plan, model, { reading: { lowWaterBytes: 1, roomBytes: 0, readBytes: blockBytes }, bytes: null, leadBytes: cookieBytes }, () => { if (connection.sender.failed !== null) this.fail(connection.sender.failed); });
    this.connection = connection;
    connection.sender.onConnect = () => this.patience.spin();
    connection.receiver.onRead = (bytes) => {
      if (bytes < cookieBytes) return;
      connection.receiver.onRead = null;
      this.streamAccepted();
    };
    connection.sender.connect();
  }

  private run(): void {
    const { sender } = this.connection!;
    const { bytes } = this.stage.plan;
    if (bytes === null) {
      sender.begin(null);
      return;
    }
    // Whole blocks are written, until there are enough bytes at the end of a call of write().
    sender.onWrite = () => {
      if (sender.bytesWritten - cookieBytes < bytes) return;
      sender.onWrite = null;
      this.testEnd();
    };
    sender.begin(Math.ceil(bytes / blockBytes) * blockBytes);
  }

  private testEnd(): void {
    const { sender } = this.connection!;
    sender.hold();
    this.phase = phase.ending;
    this.control.client.say(1); // TEST_END
    sender.onWritable = () => { if (this.phase === phase.ending) this.patience.spin(); };
  }

  /** SIGINT: it says CLIENT_TERMINATE and exits; what it wrote still goes out. */
  private interrupt(): void {
    const { client } = this.control;
    if (this.leftNs !== null || this.phase === phase.over || this.released) return;
    this.leftNs = this.stage.network.events.now;
    this.patience.rest();
    this.clock.cancel();
    this.connection?.sender.stop();
    if (this.phase <= phase.streams) {
      this.end(null, this.leftNs);
      this.release();
      return;
    }
    this.phase = phase.over;
    client.say(1);
    client.close();
  }

  cut(): string | null {
    if (this.connection !== null) this.connection.sender.finished = true;
    return null;
  }

  private end(failed: string | null, endNs: number | null): void {
    if (this.hasEnded) return;
    this.hasEnded = true;
    this.stage.ended({ failed, endNs });
  }
  private fail(why: string): void {
    this.end(why, null);
    this.release();
  }

  release(): void {
    if (this.released) return;
    this.released = true;
    this.control.release();
    this.connection?.release();
    this.patience.release();
    this.clock.release();
    this.interruption.release();
  }
}

export const iperf3 = (stage: Stage): Application => new Iperf3(stage);
