/**
 * Probes of the plan, each by its tool, all into raw/probes.rec. A new probe tool is one file and one line here.
 * A lost probe is one row with NaN delays, written at the end.
 */

import type { AgentContext, Collector } from '../testbed/agent/context.js';
import type { PlanProbe } from '../testbed/plan/plan.js';
import { probeFields } from '../testbed/records/raw.js';
import { RecordWriter } from '../testbed/records/record-file.js';
import { ping } from './ping.js';
import type { ProbeRecord, ProbeTool, ProbeToolFactory } from './probe-tool.js';
import { prober } from './probe.js';

/** fping and irtt belong to a test: its tool starts them and writes their records (testbed/traffic/flent.ts). */
const tools: Readonly<Record<Exclude<PlanProbe['tool'], 'fping' | 'irtt'>, ProbeToolFactory>> = { builtin: prober, ping };

export const probes = (context: AgentContext): Collector | null => {
  if (!context.plan.probes.some(({ tool }) => Object.hasOwn(tools, tool))) return null;
  let writer: RecordWriter | null = null;
  let started: readonly ProbeTool[] = [];
  return {
    name: 'probes',
    start() {
      const file = writer = new RecordWriter(context.raw('probes.rec'), 'probes', {}, probeFields, 32 * 1024);
      const record: ProbeRecord = (probe, seq, sent, rtt, forward, reverse) => file.row(probe, seq, sent, rtt, forward, reverse);
      started = (Object.keys(tools) as (keyof typeof tools)[]).flatMap((tool) => {
        const mine = context.plan.probes.filter((probe) => probe.tool === tool);
        return mine.length === 0 ? [] : [tools[tool](context, mine, record)];
      });
      for (const tool of started) tool.start();
    },
    flush() {
      writer?.flush();
    },
    stop() {
      for (const tool of started) tool.stop();
      writer?.close();
    },
  };
};
