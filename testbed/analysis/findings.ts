/**
 * What the records of a run say about its own figures: a bottleneck that did not run at its rate, flows that did not get the ECN they asked
 * for, delays of packets that never left, classes without a flow in the window. Judged from the record tables, so the same for every engine.
 */

import * as fs from 'node:fs';
import * as path from 'node:path';
import type { Plan, PlanFlow } from '../plan/plan.js';
import type { Database } from '../records/database.js';
import type { Finding } from '../records/raw.js';
import { rateFinding, wrongRates } from './achieved-rate.js';
import { bottleneckDirections } from './metrics.js';
import type { FlowRecord, Metrics, Window } from './metrics.js';

/** Of the packets that arrived in the window, the share that may be left out of the queueing delay unsaid. */
const unsaidWaiting = 0.001;

/** @param database with the views of `openTables` */
export async function recordFindings(database: Database, runDir: string, plan: Plan, clock: 'virtual' | 'real', window: Window, flows: readonly FlowRecord[], metrics: Metrics): Promise<Finding[]> {
  const perPacket = !database.views.withoutRows.has('packets');
  const findings: Finding[] = [];
  for (const direction of bottleneckDirections(plan)) {
    const wrong = await wrongRates(database, plan, direction, window.end, clock, perPacket);
    if (wrong.length > 0) findings.push(rateFinding(direction.name, wrong));
  }
  if (perPacket && !engineSaid(runDir, 'ecn')) findings.push(...await ecnFindings(database, plan));
  if (!window.cut) findings.push(...waitingFindings(metrics), ...absentClasses(plan, flows, window));
  return findings;
}

function engineSaid(runDir: string, rule: string): boolean {
  try {
    return fs.readFileSync(path.join(runDir, 'raw', 'agent.jsonl'), 'utf8').includes(`"rule":"${rule}"`);
  } catch {
    return false;
  }
}

/** TCP data without ECN: SYNs, bare ACKs and retransmissions (RFC 3168 section 6.1). A packet of more than this carries data, bytes. */
const largestWithoutData = 120;

/** Each flow that asked for ECN must have sent data with it, and no other TCP flow any packet. */
async function ecnFindings(database: Database, plan: Plan): Promise<Finding[]> {
  const rows = await database.rows<{ flow: number; capable: number; data: number; retransmits: number | null }>(`
    SELECT p.flow AS flow, max(p.capable) AS capable, max(p.data) AS data, any_value(f.retransmits) AS retransmits FROM (
      SELECT bottleneck, flow, count(*) FILTER (ecn > 0) AS capable, count(*) FILTER (size > ${largestWithoutData}) AS data
      FROM packets WHERE "forward" AND flow >= 0 GROUP BY bottleneck, flow) AS p JOIN flows AS f ON p.flow = f.id GROUP BY p.flow ORDER BY p.flow`);
  const of = (flow: number): PlanFlow => plan.flows[flow]!;
  // More data packets than retransmissions: at least one was sent for the first time, and so with ECN if it had it.
  const refused = rows.filter(({ flow, capable, data, retransmits }) => of(flow).ecn && capable === 0 && (of(flow).transport === 'udp' || data > (retransmits ?? 10)));
  const unasked = rows.filter(({ flow, capable }) => !of(flow).ecn && of(flow).transport === 'tcp' && capable > 0);
  const which = (list: readonly { flow: number }[]): string => `${list.length} ${list.length === 1 ? 'flow' : 'flows'} (the first: flow ${list[0]!.flow}, ${of(list[0]!.flow).class})`;
  const invalid = (message: string): Finding => ({ type: 'finding', level: 'invalid', rule: 'ecn', message });
  return [
    ...(refused.length > 0 ? [invalid(`${which(refused)} asked for ECN and did not get it: none of their packets at the bottlenecks carried an ECN codepoint. Look at net.ipv4.tcp_ecn of both hosts.`)] : []),
    ...(unasked.length > 0 ? [invalid(`${which(unasked)} used ECN though the scenario does not say so. Look at net.ipv4.tcp_ecn of both hosts, or set ecn: true.`)] : []),
  ];
}

/** Packets that arrived in the window and were still queued when the record ended: their delay is not known, only that it was long. */
function waitingFindings(metrics: Metrics): Finding[] {
  return Object.entries(metrics.bottlenecks).flatMap(([name, { packets: { arrived, waiting }, queueDelayMs }]): Finding[] => {
    if (arrived === null || waiting === null || waiting <= unsaidWaiting * arrived) return [];
    return [{
      type: 'finding', level: 'warning', rule: 'delay-censored',
      message: `link ${name}: ${waiting} of the ${arrived} packets that arrived in the window (${percent(waiting / arrived)}) were still queued when the record ended. Its queueing delays are of the other ${queueDelayMs.n}, `
        + 'so the long ones are missing: lower the load or the queue\'s limit, or read the backlog instead.',
    }];
  });
}

const percent = (share: number): string => `${Number((share * 100).toPrecision(3))} %`;
const seconds = (ns: number): string => `${Number((ns / 1e9).toPrecision(4))} s`;

/** Classes whose flows had all ended before the window opened: they have no figures. */
function absentClasses(plan: Plan, flows: readonly FlowRecord[], window: Window): Finding[] {
  return [...new Set(plan.flows.map((flow) => flow.class))].flatMap((name): Finding[] => {
    const members = flows.filter((flow) => flow.plan.class === name);
    if (members.length === 0 || members.some((flow) => (flow.tEnd === null || flow.tEnd > window.open) && (flow.tStart ?? flow.plan.startNs) < window.close)) return [];
    return [{
      type: 'finding', level: 'warning', rule: 'class-not-in-window',
      message: `class ${name} has no figures: ${members.length === 1 ? 'its flow' : `its ${members.length} flows`} had ended before the measurement window (${seconds(window.open)} to ${seconds(window.close)}). `
        + 'To see it, start it later, give it more bytes, or shorten the warm-up.',
    }];
  });
}
