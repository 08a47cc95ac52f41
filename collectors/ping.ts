/**
 * The system's ping (iputils) as a probe tool: one process a probe, in the source's network namespace, what it
 * prints kept in raw/ping-<probe>.txt and read after the run. Round-trip times only, to ping's precision: for exact
 * ones, an exact schedule, and one-way delays, there is the built-in prober.
 */

import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import * as fs from 'node:fs';
import { UserError } from '../testbed/errors.js';
import type { AgentContext } from '../testbed/agent/context.js';
import { hasEnded, waitForEnd } from '../testbed/linux/wait-child.js';
import type { PlanProbe } from '../testbed/plan/plan.js';
import { parsePing } from './ping-output.js';
import type { PingAnswer } from './ping-output.js';
import { isLost } from './probe-tool.js';
import type { ProbeRecord, ProbeTool } from './probe-tool.js';

/** ping needs room for a struct timeval to time an answer. */
const smallestPayload = 16;
/** How long after its last packet ping waits for answers, and we for ping. */
const lingerSeconds = 2;

/** ping's arguments. @throws UserError when the packet is too small to time */
export function pingArguments(probe: PlanProbe): readonly string[] {
  const headers = probe.dstAddress.includes(':') ? 48 : 28; // IP and ICMP
  const payload = probe.sizeBytes - headers;
  if (payload < smallestPayload) throw new UserError(`probe ${probe.name}: ping cannot time packets of ${probe.sizeBytes} bytes; use ${headers + smallestPayload}B or more, or tool: builtin`);
  const count = Math.floor((probe.stopNs - probe.startNs) / probe.intervalNs) + 1;
  return [
    '-D', '-n', headers === 48 ? '-6' : '-4', '-i', (probe.intervalNs / 1e9).toFixed(6), '-s', String(payload), '-c', String(count),
    '-W', String(lingerSeconds), '-I', probe.srcAddress, probe.dstAddress,
  ];
}

interface PingRow { readonly seq: number; /** ns of the run. */ readonly sentNs: number; /** NaN: lost. */ readonly rttNs: number }

/**
 * Answered and lost packets of a probe, in order of sequence number. ping keeps its own pace and does not say when it
 * sent a packet that was lost: that is interpolated between its neighbours. Packets sent after the probe's end, or
 * on their way at `endedNs`, are left out.
 */
export function pingRows(answers: readonly PingAnswer[], transmitted: number | null, realtimeAtStart: bigint, probe: PlanProbe, endedNs: number): readonly PingRow[] {
  const known = answers.map(({ seq, receivedNs, rttNs }) => {
    const received = Number(receivedNs - realtimeAtStart);
    return { seq, rttNs, sentNs: Number.isNaN(rttNs) ? received : received - rttNs };
  }).sort((a, b) => a.seq - b.seq);
  const count = Math.max(transmitted ?? 0, (known.at(-1)?.seq ?? -1) + 1);
  const longestRtt = known.reduce((longest, { rttNs }) => Math.max(longest, rttNs || 0), 0);
  const rows: PingRow[] = [];
  let before: PingRow = { seq: 0, sentNs: probe.startNs, rttNs: NaN };
  for (let seq = 0, next = 0; seq < count; seq++) {
    const after = known[next];
    let row: PingRow;
    if (after?.seq === seq) {
      row = before = after;
      next++;
    } else {
      const pace = after && after.seq > before.seq ? (after.sentNs - before.sentNs) / (after.seq - before.seq) : probe.intervalNs;
      row = { seq, sentNs: Math.round(before.sentNs + (seq - before.seq) * pace), rttNs: NaN };
      if (!isLost(row.sentNs, endedNs, longestRtt)) continue;
    }
    if (row.sentNs <= probe.stopNs) rows.push(row);
  }
  return rows;
}

class Ping {
  private child: ChildProcess | null = null;
  private readonly path: string;
  private readonly args: readonly string[];

  constructor(private readonly context: AgentContext, private readonly probe: PlanProbe, private readonly record: ProbeRecord) {
    this.path = context.raw(`ping-${probe.name}.txt`);
    this.args = pingArguments(probe);
  }

  start(): void {
    this.context.loop.at(this.probe.startNs, () => {
      const out = fs.openSync(this.path, 'w');
      try {
        // A child belongs to the network namespace of the thread that starts it.
        const [program, ...args] = this.context.command(this.probe.src, ['ping', ...this.args]);
        this.child = this.context.inNode(this.probe.src, () => spawn(program, args, { stdio: ['ignore', out, out], env: { ...process.env, LC_ALL: 'C' } }));
        this.child.on('error', () => undefined); // reported by stop(), from the missing pid
      } finally {
        fs.closeSync(out);
      }
    });
  }

  stop(): void {
    const { probe, context } = this;
    if (!this.child) return;
    const endedNs = context.now();
    if (this.child.pid === undefined) {
      context.finding('failed', 'ping-failed', `probe ${probe.name}: the program ping could not be started. Install iputils-ping, or use tool: builtin.`);
      return;
    }
    // The run is over: what is not answered by now is lost. Interrupted, ping prints what it still holds.
    if (!hasEnded(this.child.pid)) process.kill(this.child.pid, 'SIGINT');
    if (!waitForEnd(this.child.pid, lingerSeconds * 1000)) process.kill(this.child.pid, 'SIGKILL');
    const text = fs.readFileSync(this.path, 'latin1');
    const { answers, transmitted } = parsePing(text);
    for (const { seq, sentNs, rttNs } of pingRows(answers, transmitted, context.realtimeAtStart, probe, endedNs)) this.record(probe.id, seq, sentNs, rttNs, NaN, NaN);
    if (transmitted === null) {
      const said = text.trim().split('\n').at(-1)?.slice(0, 200) ?? '';
      context.finding('warning', 'ping-failed', `probe ${probe.name}: ping ended without its summary${said ? `; it said: ${said}` : ''}. See ${this.path}.`);
    }
  }
}

export const ping = (context: AgentContext, plan: readonly PlanProbe[], record: ProbeRecord): ProbeTool => {
  const probes = plan.map((probe) => new Ping(context, probe, record));
  return {
    start() { for (const probe of probes) probe.start(); },
    stop() { for (const probe of probes) probe.stop(); },
  };
};
