/**
 * iperf3 as a traffic tool: a server and a client process a flow, each in its host's network namespace (a child
 * belongs to the namespace its parent's thread is in when it is started). Servers are known to listen before
 * run time 0. Both ends' output is kept as it was printed: raw/iperf3-<flow>-{client,server}.json and .log.
 *
 * What iperf3 cannot tell is asked of the kernel: bytes delivered and retransmissions at the edges of the window
 * come from INET_DIAG of the data connection, which the client's --cport makes known. A flow's t_end is the end
 * of its client process, so its completion time includes iperf3's exchange of parameters and results, but not the bytes
 * still under way when the last of a fixed size was written: iperf3 3.12 does not wait for them.
 */

import { execFileSync } from 'node:child_process';
import type { AgentContext, Traffic } from '../agent/context.js';
import { UserError } from '../errors.js';
import type { PlanFlow } from '../plan/plan.js';
import { Connections, listens, socketTable } from './connections.js';
import { FlowLog, emptyRow } from './flow-log.js';
import type { FlowDraft } from './flow-log.js';
import { iperf3Figures, parseIperf3Output } from './iperf3-json.js';
import type { Iperf3Figures } from './iperf3-json.js';
import { interruptedNs, payloadRateBps, wholeSeconds } from './iperf3-settings.js';
import { Program, canPrepare, firstLine, patience } from './program.js';
import { payloadBytes } from './udp-flows.js';

const second = 1e9;
/** How often a server that does not listen yet is looked at, ns. */
const listenPoll = 10e6;
/** A start later than this for want of a server is told, ns; below it, the check of all timers decides. */
const lateServer = 50e6;
/** In real time a flow waits so long for a server that a loaded machine starts late, ns; the run is then invalid, but not for a fault of iperf3's. */
const lateServerWait = 10 * second;
/** Waits for children to end after the run, ms: asked to, then made to. */
const endWaitMs = { asked: 3000, killed: 2000 } as const;

class Iperf3Flow {
  readonly row: FlowDraft;
  readonly server: Program;
  readonly client: Program;
  listening = false;
  /** Its time has come, its server's not yet. */
  waiting = false;
  constructor(readonly plan: PlanFlow, context: AgentContext) {
    this.row = emptyRow(plan.id);
    const file = (end: string, suffix: string): string => context.raw(`iperf3-${plan.id}-${end}.${suffix}`);
    const env = patience(context);
    this.server = new Program(file('server', 'json'), file('server', 'log'), env);
    this.client = new Program(file('client', 'json'), file('client', 'log'), env);
  }
}

/** The server's arguments. */
export const serverArguments = (plan: PlanFlow): string[] => ['-s', '-1', '-J', '-p', String(plan.dstPort), '-B', plan.dstAddress];

/** The client's arguments; the user's own come last. @param seconds for a flow without a size */
export function clientArguments(plan: PlanFlow, seconds: number): string[] {
  const args = ['-c', plan.dstAddress, '-p', String(plan.dstPort), '-B', plan.srcAddress, '--cport', String(plan.srcPort), '-J'];
  if (plan.transport === 'udp') {
    const payload = payloadBytes(plan);
    args.push('-u', '-b', String(payloadRateBps(plan, payload)), '-l', String(payload));
    if (plan.ecn) args.push('-S', '2'); // ECT(0)
  } else if (plan.cc !== null) {
    args.push('-C', plan.cc);
  }
  if (plan.bytes !== null) args.push('-n', String(plan.bytes));
  else args.push('-t', String(seconds));
  return [...args, ...plan.toolArgs];
}

export function iperf3(context: AgentContext, plans: readonly PlanFlow[]): Traffic {
  return new Iperf3(context, plans);
}

class Iperf3 implements Traffic {
  readonly name = 'iperf3';
  private readonly flows: readonly Iperf3Flow[];
  private readonly log: FlowLog;
  private readonly connections: Connections;
  private isOver = false;

  constructor(private readonly context: AgentContext, plans: readonly PlanFlow[]) {
    this.flows = plans.map((plan) => new Iperf3Flow(plan, context));
    this.log = new FlowLog(context);
    this.connections = new Connections(context);
  }

  start(): void {
    const { context, flows } = this;
    context.facts({ iperf3: iperf3Version() });
    const ports = new Map<string, number>();
    for (const { plan } of flows) {
      if (plan.bursts !== null) throw new UserError(`flow ${plan.id} (${plan.class}): iperf3 cannot send on and off; use tool: builtin`);
      const endpoint = `${plan.dst} ${plan.dstAddress} ${plan.dstPort}`;
      const other = ports.get(endpoint);
      if (other !== undefined) throw new UserError(`flows ${other} and ${plan.id} both go to port ${plan.dstPort} of ${plan.dst}: iperf3 needs a port of its own for each flow`);
      ports.set(endpoint, plan.id);
    }
    for (const flow of flows) this.startServer(flow);
    // To make a process holds the event loop up for longer than any timer may be late: where it can be, before the run.
    if (canPrepare(context)) for (const flow of flows) context.inNode(flow.plan.src, () => flow.client.prepare(this.clientCommand(flow), () => this.clientEnded(flow)));
    const { loop, endNs, plan } = context;
    // Until they all listen; run time 0 is the limit.
    const poll = loop.every(context.now(), listenPoll, 0, () => { if (this.allListen()) poll.cancel(); });
    for (const flow of flows) {
      loop.at(flow.plan.startNs, (now) => this.startClient(flow, now));
      const atNs = interruptedNs(flow.plan);
      if (atNs !== null) loop.at(atNs, () => flow.client.interrupt('SIGINT'));
    }
    loop.at(plan.warmupNs, () => this.readEdge('warmup'));
    loop.at(endNs, () => this.readEdge('end'));
  }

  end(): void {
    this.isOver = true;
    for (const flow of this.flows) {
      if (!flow.waiting) continue;
      flow.waiting = false;
      flow.row.t_start = Math.round(flow.plan.startNs);
      withoutServer(flow);
    }
    // Fixed sizes are cut off; timed ones end by themselves about now (overtime bounds it), which keeps their results whole.
    for (const flow of this.flows) {
      if (flow.plan.bytes !== null || flow.plan.stopNs === null) flow.client.interrupt('SIGINT');
      if (!flow.client.began) {
        flow.client.interrupt('SIGTERM');
        flow.server.interrupt('SIGTERM');
      }
    }
  }

  finished(): boolean {
    return this.flows.every(({ client, server }) => !client.running && !server.running);
  }

  async stop(): Promise<void> {
    const programs = this.flows.flatMap(({ client, server }) => [client, server]);
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      const running = programs.filter((program) => program.running);
      if (running.length === 0) break;
      for (const program of running) program.interrupt(signal);
      const ms = signal === 'SIGTERM' ? endWaitMs.asked : endWaitMs.killed;
      await Promise.all(running.map((program) => program.wait(ms)));
    }
    for (const flow of this.flows) this.finish(flow);
    this.log.close();
    this.connections.close();
  }

  private startServer(flow: Iperf3Flow): void {
    const { plan, server } = flow;
    this.context.inNode(plan.dst, () => server.start(this.context.command(plan.dst, ['iperf3', ...serverArguments(plan)]), () => {}));
  }

  private allListen(): boolean {
    let all = true;
    for (const [node, flows] of this.byReceiver()) {
      const table = socketTable(this.context, node);
      for (const flow of flows) {
        flow.listening ||= listens(table, flow.plan.dstPort);
        all &&= flow.listening;
      }
    }
    return all;
  }

  private byReceiver(): Map<string, Iperf3Flow[]> {
    const nodes = new Map<string, Iperf3Flow[]>();
    for (const flow of this.flows) {
      if (flow.listening) continue;
      const list = nodes.get(flow.plan.dst);
      if (list === undefined) nodes.set(flow.plan.dst, [flow]);
      else list.push(flow);
    }
    return nodes;
  }

  private startClient(flow: Iperf3Flow, nowNs: number): void {
    const { plan, row } = flow;
    if (!flow.listening) this.allListen();
    if (!flow.listening && flow.server.ended === undefined && this.context.clock === 'real' && nowNs < plan.startNs + lateServerWait) {
      flow.waiting = true;
      this.context.loop.at(nowNs + listenPoll, (now) => { if (flow.waiting) this.startClient(flow, now); });
      return;
    }
    const waited = flow.waiting;
    flow.waiting = false;
    if (waited && flow.listening && nowNs - plan.startNs > lateServer) {
      this.context.finding('invalid', 'late', `flow ${plan.id} (${plan.class}) started ${((nowNs - plan.startNs) / 1e6).toFixed(0)} ms late: its iperf3 server on ${plan.dst} was not ready. This machine was too loaded: run it again on an idle one, or use virtual time.`);
    }
    row.t_start = nowNs;
    row.status = 'running';
    if (!flow.listening || flow.server.ended !== undefined) {
      withoutServer(flow);
      return;
    }
    if (flow.client.child !== undefined) flow.client.release();
    else this.context.inNode(plan.src, () => flow.client.start(this.clientCommand(flow), () => this.clientEnded(flow)));
  }

  private clientCommand({ plan }: Iperf3Flow): readonly [string, ...string[]] {
    return this.context.command(plan.src, ['iperf3', ...clientArguments(plan, wholeSeconds(plan))]);
  }

  private clientEnded(flow: Iperf3Flow): void {
    flow.row.t_end ??= Math.round(this.context.now());
    // Figures of the data connection are gone with it; a first row now, completed at the end of the run.
    if (!this.isOver) this.log.append({ ...flow.row, t_end: null });
  }

  private readEdge(edge: 'warmup' | 'end'): void {
    this.connections.readEdge(this.flows.filter(({ plan, row }) => plan.transport === 'tcp' && row.t_start !== null), edge);
  }

  /** The flow's row from both ends' outputs. */
  private finish(flow: Iperf3Flow): void {
    const { plan, row, client, server } = flow;
    if (row.t_start === null) {
      this.log.append(row);
      return;
    }
    const clientText = client.output();
    const serverText = server.output();
    const ours = parseIperf3Output(clientText);
    const theirs = parseIperf3Output(serverText);
    const sent = iperf3Figures(ours.documents);
    const received = iperf3Figures(theirs.documents);
    fillRow(row, plan, sent, received);
    if (row.status !== 'failed') {
      const cutByUs = client.interrupted && /interrupt|terminat/i.test(sent.error ?? '');
      // Whoever listened on the port, it was not this server; the client may have waited for an answer all the time.
      const notListening = /unable to start listener|address already in use/i.test(received.error ?? '') ? `its iperf3 server does not listen on port ${plan.dstPort} of ${plan.dst}: ${received.error}` : null;
      const error = notListening ?? client.failure ?? (sent.error !== null && !cutByUs ? sent.error : null)
        ?? (sent.bytesSent === null && !client.interrupted ? `its client printed no result (${firstLine(client.errors() || clientText) || exitOf(client)})` : null);
      if (error !== null) {
        row.status = 'failed';
        row.error = error;
      } else if (plan.bytes !== null ? !client.interrupted : (plan.stopNs ?? Infinity) < this.context.endNs) {
        row.status = 'complete';
      } else {
        row.status = 'running';
        row.t_end = null;
      }
    }
    if (row.status === 'failed') {
      row.t_end = null;
      this.context.finding('failed', 'iperf3-failed', `flow ${plan.id} (${plan.class}, ${plan.src} → ${plan.dst}): iperf3 failed: ${row.error}. Its output: raw/iperf3-${plan.id}-client.json and .log, raw/iperf3-${plan.id}-server.json and .log`);
    } else if (ours.problems.length > 0 && !client.interrupted) {
      this.context.finding('warning', 'iperf3-output', `flow ${plan.id} (${plan.class}): iperf3's client printed JSON that is not JSON (${ours.problems.join('; ')}); what could be read was used`);
    }
    if (row.status === 'complete' && plan.bytes !== null && (row.bytes ?? 0) < 0.9 * plan.bytes) {
      this.context.finding('warning', 'iperf3-short', `flow ${plan.id} (${plan.class}): iperf3 ends a flow of fixed size when the last byte is written, not received; its receiver counted ${row.bytes ?? 0} of ${plan.bytes} bytes. tool: builtin measures to the last byte acknowledged`);
    }
    row.bytes_at_end ??= row.bytes;
    row.bytes_at_warmup ??= row.t_start > this.context.plan.warmupNs ? 0 : row.t_end !== null && row.t_end <= this.context.plan.warmupNs ? row.bytes : null;
    if (plan.transport === 'tcp') {
      row.retransmits_at_end ??= row.retransmits;
      row.retransmits_at_warmup ??= row.t_start > this.context.plan.warmupNs ? 0 : row.t_end !== null && row.t_end <= this.context.plan.warmupNs ? row.retransmits : null;
    }
    this.log.append(row);
  }
}

/** Bytes by the receiver's own account, or what it told the sender; the sender's otherwise. */
function fillRow(row: FlowDraft, plan: PlanFlow, sent: Iperf3Figures, received: Iperf3Figures): void {
  row.bytes = received.bytesReceived ?? sent.bytesReceived ?? row.bytes_at_end;
  if (plan.transport === 'udp') {
    row.bytes_sent = sent.bytesSent;
    row.packets_sent = sent.packets;
    row.packets_lost = received.lostPackets ?? sent.lostPackets;
  } else {
    row.retransmits = sent.retransmits ?? row.retransmits;
    // A connection that ended before the window closed was last asked at an earlier edge.
    if (row.t_end !== null) [row.bytes_sent, row.packets_sent] = [sent.bytesSent, null];
  }
}

const exitOf = ({ ended }: Program): string => (ended === undefined ? 'still running' : ended.signal !== null ? `ended by ${ended.signal}` : `exit code ${ended.code}`);

function withoutServer({ row, plan, server }: Iperf3Flow): void {
  row.status = 'failed';
  row.error = `its iperf3 server does not listen on port ${plan.dstPort} of ${plan.dst}: ${serverSays(server)}`;
}

/** Why a server does not listen, in its own words. */
function serverSays(server: Program): string {
  const text = server.output();
  const { error } = iperf3Figures(parseIperf3Output(text).documents);
  return server.failure ?? error ?? (firstLine(server.errors() || text) || exitOf(server));
}

function iperf3Version(): string {
  try {
    return firstLine(execFileSync('iperf3', ['--version'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }));
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') {
      throw new UserError('iperf3 is not installed, and the plan has flows with tool: iperf3. Install it (apt-get install iperf3) or use tool: builtin');
    }
    throw error;
  }
}
