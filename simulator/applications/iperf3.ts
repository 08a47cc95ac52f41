/**
 * A test of iperf3 3.12 (Debian 12) as the kernel engine runs it in virtual time: a client and a server (`-s -1`) for each flow. A control connection first: the
 * cookie, the server's states of one byte, the parameters as JSON; then the stream (iperf3-tcp.ts, iperf3-udp.ts), which begins when
 * the server says TEST_RUNNING. The client writes until its time is over or enough was written, says TEST_END, and the
 * server closes the stream there and then; results are exchanged, and the client's end is the flow's.
 * While it waits for the server with a stream it could write to, iperf3 polls, which kernel/patient.c makes it do at some distance (`Patience`).
 * Differences: more than one stream (-P) and other arguments of the user's are not looked at.
 */

import type { PlanFlow } from '../../testbed/plan/plan.js';
import { noFlow } from '../../testbed/records/packet-columns.js';
import { blockBytes, interruptedNs, pacingTimerNs, payloadRateBps, wholeSeconds } from '../../testbed/traffic/iperf3-settings.js';
import { Alarm } from '../alarm.js';
import type { Network } from '../network.js';
import { Dialogue } from '../tcp/dialogue.js';
import type { Ending } from './application.js';
import { Patience } from './patience.js';

export const cookieBytes = 37;
const lengthBytes = 4;
/** Its results as JSON, bytes: 230 and 268 as seen; the digits of its figures vary by a few. */
const resultBytes = { client: 230, server: 268 } as const;

/** What carries the data of a test. */
export interface Iperf3Stream {
  /**
   * The client's call of connect().
   * @param connected told when it has returned. @param accepted told when the server has accepted the stream. @param failed told why it broke, then or later
   */
  connect(connected: () => void, accepted: () => void, failed: (why: string) => void): void;
  /** The client writes from now on. @param testNs when the test began. @param enough told when as much as was asked for has been written */
  begin(testNs: number, enough: () => void): void;
  /** It writes no more. @param writable told when it could */
  hold(writable: () => void): void;
  /** The client has exited. */
  leave(): void;
  /** The server closes its end: what still comes is not counted. */
  close(): void;
  /** Gives its timers back. */
  free(): void;
}

/** What the client is at; in this order. */
const phase = { parameters: 0, streams: 1, start: 2, running: 3, ending: 4, results: 5, display: 6, over: 7 } as const;

/** The parameters as the client sends them (send_parameters), bytes. */
function parameterBytes(plan: PlanFlow): number {
  const udp = plan.transport === 'udp';
  const payload = (plan.packetBytes ?? 0) - (plan.srcAddress.includes(':') ? 48 : 28);
  return JSON.stringify({
    [plan.transport]: true, omit: 0, time: plan.bytes === null ? wholeSeconds(plan) : 0, num: plan.bytes ?? 0, blockcount: 0, parallel: 1, len: udp ? payload : blockBytes,
    ...(udp ? { bandwidth: payloadRateBps(plan, payload) } : {}), pacing_timer: pacingTimerNs / 1000, ...(plan.cc === null ? {} : { congestion: plan.cc }), client_version: '3.12',
  }).length;
}

export class Iperf3Test {
  private readonly control: Dialogue;
  private phase: number = phase.parameters;
  private readonly patience: Patience;
  /** The time told with -t is over. */
  private readonly clock: Alarm;
  private readonly interruption: Alarm;
  private testNs = NaN;
  /** When the client was interrupted, ns. */
  private leftNs: number | null = null;
  private readByServer = 0;
  private hasEnded = false;
  private released = false;

  /** @param ended told once, when the client has ended, or when it failed */
  constructor(private readonly network: Network, private readonly plan: PlanFlow, private readonly stream: Iperf3Stream, private readonly ended: (ending: Ending) => void) {
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

  /** The client starts. */
  start(): void {
    this.control.client.connect();
    const atNs = interruptedNs(this.plan);
    if (atNs !== null) this.interruption.set(atNs);
  }

  // ---- The server: what it reads, in turn; the last of each exchange is answered. ----

  private serverReads(bytes: number): void {
    const { server } = this.control;
    if (bytes === 0) return;
    switch (this.readByServer++) {
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

  /** It has accepted the stream: TEST_START, TEST_RUNNING. */
  private streamAccepted(): void {
    this.control.server.say(1);
    this.control.server.say(1);
  }

  private testEnded(): void {
    this.stream.close();
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
    const { network, plan } = this;
    if (bytes === 0) {
      this.release(); // the server has closed too
      return;
    }
    switch (this.phase) {
      case phase.parameters:
        client.say(lengthBytes);
        client.say(parameterBytes(plan));
        this.phase = phase.streams;
        break;
      case phase.streams:
        this.phase = phase.start;
        this.stream.connect(() => this.patience.spin(), () => this.streamAccepted(), (why) => this.fail(why));
        break;
      case phase.start:
        this.testNs = network.events.now;
        if (plan.bytes === null) this.clock.set(network.events.now + wholeSeconds(plan) * 1e9);
        this.phase = phase.running;
        break;
      case phase.running:
        this.patience.rest();
        this.stream.begin(this.testNs, () => this.testEnd());
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
        this.stream.free();
        break;
      default:
    }
  }

  private testEnd(): void {
    this.phase = phase.ending;
    this.control.client.say(1); // TEST_END
    this.stream.hold(() => { if (this.phase === phase.ending) this.patience.spin(); });
  }

  /** SIGINT: it says CLIENT_TERMINATE and exits; what it wrote still goes out. */
  private interrupt(): void {
    const { client } = this.control;
    if (this.leftNs !== null || this.phase === phase.over || this.released) return;
    this.leftNs = this.network.events.now;
    this.patience.rest();
    this.clock.cancel();
    this.stream.leave();
    if (this.phase <= phase.streams) {
      this.end(null, this.leftNs);
      this.release();
      return;
    }
    this.phase = phase.over;
    client.say(1);
    client.close();
  }

  private end(failed: string | null, endNs: number | null): void {
    if (this.hasEnded) return;
    this.hasEnded = true;
    this.ended({ failed, endNs });
  }
  private fail(why: string): void {
    this.end(why, null);
    this.release();
  }

  release(): void {
    if (this.released) return;
    this.released = true;
    this.control.release();
    this.stream.free();
    this.patience.release();
    this.clock.release();
    this.interruption.release();
  }
}
