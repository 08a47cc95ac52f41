/**
 * flent as a traffic tool: each test of the plan (`tests`) is one flent on its sending host, which starts netperf, fping
 * and irtt itself; netserver and irtt servers run on the receiving hosts from before run time 0. flent gets the test as
 * a definition that includes its own and adds the ports of the plan's flows and probes (flent-definition.ts), so that the
 * kernel's records of packets and sockets know each stream.
 *
 * Runs repeat exactly in virtual time, those with irtt too: kernel/steady.c hides the host's cycle counter from it.
 *
 * Kept in raw/: flent-<test>.flent.gz (flent's data file as it wrote it), flent-<test>.log (what it said), servers' logs.
 * From the data file come the flows' rows (netperf's own totals) and raw/probes-flent.rec; bytes and retransmissions
 * at the edges of the window come from INET_DIAG, and by flent's samples where a connection was not there to be asked.
 */

import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import { pingRows } from '../../collectors/ping.js';
import { isLost } from '../../collectors/probe-tool.js';
import type { AgentContext, Traffic } from '../agent/context.js';
import { UserError } from '../errors.js';
import type { PlanFlow, PlanProbe, PlanSeries, PlanTest } from '../plan/plan.js';
import { probeFields } from '../records/raw.js';
import { RecordWriter } from '../records/record-file.js';
import { Connections, listens, readIfThere, socketTable } from './connections.js';
import { irttSamples, readFlentData, streamFigures } from './flent-data.js';
import type { FlentData, SeriesData } from './flent-data.js';
import { definitionForRun, flentOptions } from './flent-definition.js';
import { failedRunners, lastComplaint } from './flent-log.js';
import { FlowLog, emptyRow } from './flow-log.js';
import type { FlowDraft } from './flow-log.js';
import { Program, steadiness } from './program.js';

const second = 1e9;
/** netserver's control port: below all ports of the plan (plan/ports.ts). */
const netserverPort = 1865;
/** How long a test may last longer than it says before it is asked to end, ns: flent's own watchdogs wait 10 s. */
const overtime = 12 * second;
/** And from then on until it is made to. */
const patienceNs = 3 * second;
const pollNs = 10e6;
/** Waits for children to end after the run, ms: asked to, then made to. */
const endWaitMs = { asked: 3000, killed: 2000 } as const;

// Run in the host, which may have another file system than the agent: constant scripts, everything else is an argument.
const makeFolder = 'd=$(mktemp -d -t testbed-flent.XXXXXX) && cat >"$d/$0.conf" && printf %s "$1" >"$d/cache" && printf %s "$d"';
const takeData = 'cat "$0"/*.flent.gz; r=$?; rm -rf "$0"; exit $r';
const findPrograms = 'for p; do printf "%s\\n" "$(command -v -- "$p")"; done';

interface Server { readonly node: string; readonly words: readonly [string, ...string[]]; readonly tcpPort: number | null; readonly program: Program }
interface Stream { readonly series: PlanSeries; readonly plan: PlanFlow; readonly row: FlowDraft }
interface Ping { readonly series: PlanSeries; readonly plan: PlanProbe }

class Test {
  readonly streams: readonly Stream[];
  readonly pings: readonly Ping[];
  readonly program: Program;
  readonly logPath: string;
  readonly dataPath: string;
  servers: readonly Server[] = [];
  /** On the sending host. */
  folder = '';
  started = false;

  constructor(readonly plan: PlanTest, context: AgentContext) {
    const { flows, probes } = context.plan;
    this.streams = plan.series.flatMap((series) => (series.flow === null ? [] : [{ series, plan: flows[series.flow]!, row: emptyRow(series.flow) }]));
    this.pings = plan.series.flatMap((series) => (series.probe === null ? [] : [{ series, plan: probes[series.probe]! }]));
    this.logPath = context.raw(`flent-${plan.id}.log`);
    this.dataPath = context.raw(`flent-${plan.id}.flent.gz`);
    // The same hash order each time: flent's records repeat. flent starts irtt itself.
    this.program = new Program(context.raw(`flent-${plan.id}.txt`), this.logPath, { PYTHONHASHSEED: '0', LC_ALL: 'C.UTF-8', ...steadiness(context) });
  }
  get where(): string {
    return `flent's ${this.plan.test} (traffic ${this.plan.class}, on ${this.plan.src})`;
  }
}

const ipOf = (address: string): 4 | 6 => (address.includes(':') ? 6 : 4);
const endpoint = (address: string, port: number): string => (ipOf(address) === 6 ? `[${address}]:${port}` : `${address}:${port}`);

/** What of flent's own definition the plan changes: ports, congestion control. By series. */
export function seriesChanges(test: PlanTest, flows: readonly PlanFlow[], probes: readonly PlanProbe[]): Readonly<Record<string, Readonly<Record<string, string>>>> {
  const changes: Record<string, Record<string, string>> = {};
  for (const { name, flow, probe } of test.series) {
    if (flow !== null) {
      const { src, srcPort, dstPort, cc } = flows[flow]!;
      // netperf's -P: its own port, netserver's; -K: on both ends.
      const [local, remote] = src === test.src ? [srcPort, dstPort] : [dstPort, srcPort];
      changes[name] = { extra_test_args: `-P ${local},${remote}`, ...(cc === null ? {} : { cong_control: cc }) };
    } else if (probe !== null && probes[probe]!.tool === 'irtt') {
      const { srcAddress, dstAddress, port } = probes[probe]!;
      changes[name] = { host: endpoint(dstAddress, port), local_bind: endpoint(srcAddress, port) };
    }
  }
  return changes;
}

/** flent's words, its program first. @param folder on its host: holds `<test>.conf` and `cache`, gets the data file */
export function flentWords(test: PlanTest, folder: string): [string, ...string[]] {
  return [
    'flent', `${folder}/${test.test}`, ...flentOptions({
      test: test.test, ip: ipOf(test.srcAddress), hosts: test.hosts.map(({ address }) => address), lengthSeconds: test.lengthSeconds, delaySeconds: test.delaySeconds,
      stepSeconds: test.stepSeconds, parameters: test.parameters,
    }),
    '--local-bind', test.srcAddress, '--netperf-control-port', String(netserverPort), '--cache-file', `${folder}/cache`, '-D', folder, ...test.args,
  ];
}

export function flent(context: AgentContext): Traffic {
  return new Flent(context);
}

class Flent implements Traffic {
  readonly name = 'flent';
  private readonly tests: readonly Test[];
  private readonly servers = new Map<string, Server>();
  private readonly log: FlowLog;
  private readonly connections: Connections;
  private listening = false;

  constructor(private readonly context: AgentContext) {
    this.tests = (context.plan.tests ?? []).map((plan) => new Test(plan, context));
    this.log = new FlowLog(context);
    this.connections = new Connections(context);
  }

  start(): void {
    const { context } = this;
    const { loop, plan, endNs } = context;
    for (const test of this.tests) {
      const found = this.checkPrograms(test);
      test.servers = this.serversOf(test);
      // flent would try fping with a name of the internet first, and wait for its resolver.
      const cache = JSON.stringify({ PingRunner: { [`fping,${ipOf(test.plan.srcAddress)},`]: found.get('fping') ?? 'fping' } });
      test.folder = this.inHost(test.plan.src, ['sh', '-c', makeFolder, test.plan.test, cache], definitionForRun).toString('utf8');
    }
    for (const { node, words, program } of this.servers.values()) context.inNode(node, () => program.start(context.command(node, words), () => {}));
    const poll = loop.every(context.now(), pollNs, 0, () => { if (this.allListen()) poll.cancel(); });
    for (const test of this.tests) {
      loop.at(test.plan.startNs, () => this.startTest(test));
      const late = test.plan.startNs + test.plan.totalSeconds * second + overtime;
      loop.at(late, () => test.program.interrupt('SIGTERM'));
      loop.at(late + patienceNs, () => killTree(test.program));
    }
    loop.at(plan.warmupNs, () => this.readEdge('warmup'));
    loop.at(endNs, () => this.readEdge('end'));
  }

  end(): void {
    // flent's tests are over by now, or about to be: what they still have to write is waited for.
  }

  finished(): boolean {
    return this.tests.every(({ program }) => !program.running);
  }

  async stop(): Promise<void> {
    for (const { program } of this.tests) {
      if (!program.running) continue;
      program.interrupt('SIGTERM');
      await program.wait(endWaitMs.asked);
      killTree(program);
      await program.wait(endWaitMs.killed);
    }
    const servers = [...this.servers.values()].map(({ program }) => program);
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      for (const program of servers) program.interrupt(signal);
      await Promise.all(servers.map((program) => program.wait(signal === 'SIGTERM' ? endWaitMs.asked : endWaitMs.killed)));
    }
    const writer = new RecordWriter(this.context.raw('probes-flent.rec'), 'probes', {}, probeFields, 32 * 1024);
    try {
      for (const test of this.tests) this.finish(test, writer);
    } finally {
      writer.close();
      this.log.close();
      this.connections.close();
    }
  }

  /** Runs a short command in a host. @returns what it printed */
  private inHost(node: string, words: readonly [string, ...string[]], input = ''): Buffer {
    const [program, ...args] = this.context.command(node, words);
    return execFileSync(program, args, { input, stdio: ['pipe', 'pipe', 'pipe'], timeout: 30_000, maxBuffer: 2 ** 30 });
  }

  /** In containers nobody has looked before. @returns where each is, on the sending host. @throws UserError naming what is missing */
  private checkPrograms({ plan, where }: Test): ReadonlyMap<string, string> {
    const look = (node: string, names: readonly string[]): Map<string, string> => {
      const paths = this.inHost(node, ['sh', '-c', findPrograms, 'sh', ...names]).toString('utf8').split('\n');
      const missing = names.filter((_, i) => !paths[i]);
      if (missing.length > 0) throw new UserError(`${where}: ${missing.join(', ')} ${missing.length === 1 ? 'is' : 'are'} not installed on ${node}; testbed doctor says how to get ${missing.length === 1 ? 'it' : 'them'}; hosts in containers have what their image has: testbed image build`);
      return new Map(names.map((name, i) => [name, paths[i]!]));
    };
    const found = look(plan.src, ['flent', ...new Set(plan.series.map(({ program }) => program))]);
    for (const { node } of plan.hosts) {
      const servers = new Set(plan.series.filter(({ host }) => host === node).flatMap(({ program }) => serverOf[program] ?? []));
      if (servers.size > 0) look(node, [...servers]);
    }
    return found;
  }

  /** One server of a kind a receiving host, shared by tests. */
  private serversOf({ plan, pings }: Test): Server[] {
    const servers: Server[] = [];
    for (const { node, address } of plan.hosts) {
      const programs = new Set(plan.series.filter(({ host }) => host === node).map(({ program }) => program));
      if (programs.has('netperf')) servers.push(this.server(node, `netserver-${node}`, netserverPort, ['netserver', '-D', '-N', '-L', `${address},${ipOf(address)}`, '-p', String(netserverPort)]));
      if (programs.has('iperf')) servers.push(this.server(node, `iperf-${node}`, null, ['iperf', '-s', '-u', '-B', address, ...(ipOf(address) === 6 ? ['-V'] : [])]));
      const mine = pings.filter(({ series, plan: { tool } }) => series.host === node && tool === 'irtt');
      // Packets would be told apart by ports only: an irtt server of a test's own, with a port for each of its probes.
      if (mine.length > 0) servers.push(this.server(node, `irtt-${plan.id}-${node}`, null, ['irtt', 'server', '-b', mine.map(({ plan: { port } }) => endpoint(address, port)).join(',')]));
    }
    return servers;
  }
  private server(node: string, name: string, tcpPort: number | null, words: readonly [string, ...string[]]): Server {
    const known = this.servers.get(name);
    if (known !== undefined) return known;
    const file = name.replaceAll(/[^A-Za-z0-9.-]+/g, '-');
    const server = { node, words, tcpPort, program: new Program(this.context.raw(`flent-${file}.txt`), this.context.raw(`flent-${file}.log`), words[0] === 'irtt' ? steadiness(this.context) : {}) };
    this.servers.set(name, server);
    return server;
  }

  private allListen(): boolean {
    return this.listening ||= [...this.servers.values()].every(({ node, tcpPort }) => tcpPort === null
      || listens(socketTable(this.context, node), tcpPort));
  }

  private startTest(test: Test): void {
    const { context } = this;
    const { plan } = test;
    test.started = true;
    const silent = test.servers.find(({ program, tcpPort }) => !program.running || (tcpPort !== null && !this.allListen()));
    if (silent !== undefined) {
      this.failAll(test, `${silent.words[0]} does not listen on ${silent.node}: ${lastComplaint(silent.program.errors() || silent.program.output()) || 'it said nothing'}`);
      return;
    }
    const words = context.command(plan.src, flentWords(plan, test.folder));
    const ask = JSON.stringify({ test: plan.test, series: seriesChanges(plan, context.plan.flows, context.plan.probes) });
    context.inNode(plan.src, () => test.program.start(words, () => {}, { TESTBED_FLENT: ask }));
  }

  private readEdge(edge: 'warmup' | 'end'): void {
    this.connections.readEdge(this.tests.flatMap((test) => (test.started ? test.streams : [])), edge);
  }

  private failAll(test: Test, reason: string): void {
    for (const { row } of test.streams) Object.assign(row, { status: 'failed', error: reason, t_end: null });
    this.context.finding('failed', 'flent-failed', `${test.where}: ${reason}`);
  }

  private finish(test: Test, writer: RecordWriter): void {
    if (test.folder !== '' && !test.started) this.inHost(test.plan.src, ['rm', '-rf', test.folder]);
    if (test.program.child !== undefined) this.readTest(test, writer);
    for (const { row } of test.streams) this.log.append(row);
  }

  private readTest(test: Test, writer: RecordWriter): void {
    const { context } = this;
    const { program, plan } = test;
    const said = `${program.output()}\n${program.errors()}`;
    let data: FlentData;
    try {
      fs.writeFileSync(test.dataPath, this.inHost(plan.src, ['sh', '-c', takeData, test.folder]));
      data = readFlentData(fs.readFileSync(test.dataPath), context.realtimeAtStart);
    } catch (error) {
      this.failAll(test, `${program.failure ?? (program.interrupted ? `it was not over ${overtime / second} s after its time and was ended; ` : '') + (failuresOf(said) || lastComplaint(said) || (error as Error).message)}. Its output: raw/flent-${plan.id}.log`);
      fs.rmSync(test.dataPath, { force: true });
      return;
    }
    context.facts({ flent: data.flentVersion });
    const failures = failedRunners(said);
    /** Series without data, by why. */
    const empty = new Map<string, string[]>();
    const isEmpty = (name: string, reason: string): void => { empty.set(reason, [...(empty.get(reason) ?? []), name]); };
    for (const stream of test.streams) {
      const series = data.series.get(stream.series.name);
      const failure = failures.find(({ command }) => command.includes(portsOf(stream.plan, plan.src)));
      if (!this.fillStream(stream, series) || failure !== undefined) {
        const reason = failure?.said ?? 'flent has no data of it';
        Object.assign(stream.row, { status: 'failed', error: `${stream.series.program}: ${reason}`, t_end: null });
        isEmpty(stream.series.name, reason);
      }
    }
    for (const ping of test.pings) {
      const series = data.series.get(ping.series.name);
      const failure = failures.find(({ command }) => (ping.plan.tool === 'irtt' ? command.includes(endpoint(ping.plan.srcAddress, ping.plan.port)) : command.includes('fping') && command.includes(` ${ping.plan.dstAddress}`)));
      const rows = series === undefined ? 0 : this.writeProbe(ping.plan, series, writer);
      // fping's exit code is 1 when packets were lost, which is a result.
      if (rows === 0) isEmpty(ping.series.name, failure?.said ?? 'flent has no data of it');
    }
    for (const { name, program: what } of plan.series.filter(({ flow, probe }) => flow === null && probe === null)) {
      if ((data.series.get(name)?.raw.length ?? 0) > 0) continue;
      const failure = failures.find(({ command }) => command.split(/[\s/]/).includes(what));
      if (failure !== undefined) isEmpty(name, failure.said);
    }
    if (empty.size > 0) context.finding('failed', 'flent-failed', `${test.where}: ${[...empty].map(([reason, names]) => `${names.join(', ')}: ${reason}`).slice(0, 5).join('. ')}. Its output: raw/flent-${plan.id}.log`);
    const other = test.streams.find(({ series, plan: { cc } }) => ![null, cc].includes(data.series.get(series.name)?.congestionControl ?? null));
    if (other !== undefined) context.finding('invalid', 'congestion-control', `${test.where}: ${other.series.name} ran with ${data.series.get(other.series.name)!.congestionControl!}, not ${String(other.plan.cc)}`);
  }

  /** @returns whether there was anything to fill in */
  private fillStream({ plan, row }: Stream, series: SeriesData | undefined): boolean {
    const figures = series === undefined ? null : streamFigures(series);
    if (series === undefined || figures === null) return false;
    const { warmupNs } = this.context.plan;
    const { endNs } = this.context;
    row.t_start = figures.startNs;
    row.bytes = series.bytesReceived ?? figures.bytesUntil(Infinity);
    row.retransmits = series.retransmits ?? row.retransmits;
    const over = figures.endNs <= endNs;
    row.status = over || plan.bytes !== null ? 'complete' : 'running';
    row.t_end = row.status === 'complete' ? figures.endNs : null;
    if (over) [row.bytes_sent, row.packets_sent] = [series.bytesSent, null]; // asked at an earlier edge, if at all
    const at = (edgeNs: number, total: number | null): number | null => (figures.startNs >= edgeNs ? 0 : figures.endNs <= edgeNs ? total : null);
    row.bytes_at_warmup ??= at(warmupNs, row.bytes) ?? figures.bytesUntil(warmupNs);
    row.bytes_at_end = over ? row.bytes : row.bytes_at_end ?? figures.bytesUntil(endNs);
    row.retransmits_at_warmup ??= at(warmupNs, row.retransmits);
    row.retransmits_at_end = over ? row.retransmits : row.retransmits_at_end;
    return true;
  }

  /** @returns how many rows */
  private writeProbe(plan: PlanProbe, series: SeriesData, writer: RecordWriter): number {
    const ended = this.context.now();
    if (plan.tool === 'irtt') {
      const samples = irttSamples(series);
      const longest = samples.reduce((most, { rttNs }) => Math.max(most, rttNs || 0), 0);
      const rows = samples.filter(({ rttNs, sentNs }) => rttNs === rttNs || isLost(sentNs, ended, longest));
      for (const { seq, sentNs, rttNs, forwardNs, reverseNs } of rows) writer.row(plan.id, seq, sentNs, rttNs, forwardNs, reverseNs);
      return rows.length;
    }
    const { realtimeAtStart } = this.context;
    const answers = series.raw.flatMap(({ tNs, val, seq }) => (val === null || seq === null ? [] : [{ seq, receivedNs: realtimeAtStart + BigInt(tNs), rttNs: Math.round(val * 1e6) }]));
    if (answers.length === 0) return 0;
    // flent asks fping for one more than fit, and fping begins a little after the plan's start.
    const count = Math.floor((plan.stopNs - plan.startNs) / plan.intervalNs);
    const rows = pingRows(answers, count, realtimeAtStart, { ...plan, stopNs: Infinity }, ended);
    for (const { seq, sentNs, rttNs } of rows) writer.row(plan.id, seq, sentNs, rttNs, NaN, NaN);
    return rows.length;
  }
}

const serverOf: Readonly<Record<string, readonly string[]>> = { netperf: ['netserver'], irtt: ['irtt'], iperf: ['iperf'] };

const portsOf = (flow: PlanFlow, src: string): string => `-P ${flow.src === src ? `${flow.srcPort},${flow.dstPort}` : `${flow.dstPort},${flow.srcPort}`}`;

const failuresOf = (said: string): string => failedRunners(said).map(({ command, said: words }) => `${command.split(' ')[0]!.split('/').at(-1)!}: ${words}`).slice(0, 3).join('. ');

/** flent and what it started, by process id: killed, it leaves its programs running. */
function killTree(program: Program): void {
  const pid = program.child?.pid;
  if (!program.running || pid === undefined) return;
  const parents = new Map<number, number>();
  for (const entry of fs.readdirSync('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    // pid (command) state ppid …; the command may hold anything, parentheses too.
    const ppid = readIfThere(`/proc/${entry}/stat`).split(') ').at(-1)?.split(' ')[1];
    if (ppid !== undefined) parents.set(Number(entry), Number(ppid));
  }
  const tree = [pid];
  for (const parent of tree) for (const [child, of] of parents) if (of === parent) tree.push(child);
  for (const each of tree.slice(1)) {
    try {
      process.kill(each, 'SIGKILL');
    } catch {
      // gone meanwhile
    }
  }
  program.interrupt('SIGKILL');
}
