/**
 * What two plans do differently, and whether their figures may be set side by side all the same. Queue, engine, kernel, TCP
 * settings are what people compare; another rate, window, path, workload or chain of events is another experiment. Two plans of one seed
 * are compared whole. Plans of different seeds have other start times, sizes and arrivals by design: there the draws are left
 * out and, where both runs kept it, what they were drawn from (the scenario's traffic) is compared instead.
 */

import type { Plan, PlanDirection, PlanFlow, PlanQueue } from '../plan/plan.js';
import { formatRate, formatTime } from '../units.js';

/** Differences that make a comparison another experiment's: refused unless allowed by name. */
export const refusing = ['rate', 'window', 'delay', 'topology', 'traffic', 'events'] as const;
/** Differences that may be the very question: shown. */
export const shown = ['name', 'queue', 'shaper', 'cc', 'ecn', 'tool', 'tcp', 'collect', 'addressing'] as const;
export type PlanCategory = typeof refusing[number] | typeof shown[number];

export interface Difference {
  readonly category: string;
  /** Path in the plan: `links.BL.forward.rateBps`; `*` for any flow. */
  readonly where: string;
  /** How many places of the plan differ in this way. */
  readonly count: number;
  /** As text, with units. */
  readonly reference: string;
  readonly other: string;
}

/** `owner`: the path that says the thing is there at all; of a link that one side lacks, its absence is all that is said. */
interface Leaf { readonly category: PlanCategory; readonly general: string; readonly owner: string; readonly value: unknown }
type Leaves = Map<string, Leaf>;

/** @param scenarioOf each run's resolved variant, where run.json has it: compared in place of draws */
export function planDifferences(reference: Plan, other: Plan, scenarioOf: readonly [unknown, unknown] = [undefined, undefined]): Difference[] {
  const sameDraws = reference.seed === other.seed;
  const classes = sharedClasses(reference, other, sameDraws);
  const found = compareLeaves(leavesOf(reference, sameDraws, classes), leavesOf(other, sameDraws, classes));
  if (sameDraws || !isObject(scenarioOf[0]) || !isObject(scenarioOf[1])) return found;
  const drawn = compareLeaves(scenarioLeaves(scenarioOf[0]), scenarioLeaves(scenarioOf[1]));
  return [...found, ...drawn];
}

/** Classes with the same flows in number on both sides: compared flow by flow. Others differ in their number, and that is said. */
function sharedClasses(a: Plan, b: Plan, sameDraws: boolean): ReadonlySet<string> {
  if (!sameDraws) return new Set();
  const count = (plan: Plan): Map<string, number> => plan.flows.reduce((map, flow) => map.set(flow.class, (map.get(flow.class) ?? 0) + 1), new Map<string, number>());
  const [left, right] = [count(a), count(b)];
  return new Set([...left].flatMap(([name, n]) => (right.get(name) === n ? [name] : [])));
}

function leavesOf(plan: Plan, sameDraws: boolean, flowByFlow: ReadonlySet<string>): Leaves {
  const leaves: Leaves = new Map();
  let owner = '';
  const put: Put = (category, path, value, general = path) => {
    if (value !== undefined) leaves.set(path, { category, general, owner: owner === '' ? path : owner, value });
  };
  put('name', 'name', plan.name);
  put('window', 'warmupNs', plan.warmupNs);
  put('window', 'durationNs', plan.durationNs);
  for (const node of plan.nodes) {
    owner = `nodes.${node.name}`;
    put('topology', `nodes.${node.name}`, node.role, 'nodes.*');
    put('addressing', `nodes.${node.name}.netns`, node.netns, 'nodes.*.netns');
    put('addressing', `nodes.${node.name}.routes`, node.routes, 'nodes.*.routes');
    for (const [key, value] of Object.entries(node.sysctls ?? {})) put(/ecn/.test(key) ? 'ecn' : 'tcp', `nodes.${node.name}.sysctls.${key}`, value, `nodes.*.sysctls.${key}`);
  }
  for (const link of plan.links) {
    const at = `links.${link.name}`;
    owner = `${at}.between`;
    const general = link.role === 'bottleneck' ? 'links.*' : 'access links.*';
    put('topology', `${at}.between`, `${link.a.node} – ${link.b.node} (${link.role})`, `${general}.between`);
    put('topology', `${at}.mtuBytes`, link.mtuBytes, `${general}.mtuBytes`);
    put('addressing', `${at}.interfaces`, [link.a.device, link.a.addresses, link.b.device, link.b.addresses], `${general}.interfaces`);
    for (const side of ['forward', 'reverse'] as const) putDirection(put, `${at}.${side}`, `${general}.${side}`, link[side], sameDraws);
  }
  const end = plan.warmupNs + plan.durationNs;
  const names = [...new Set(plan.flows.map((flow) => flow.class))];
  for (const name of names) {
    owner = `flows of ${name}`;
    putClass(put, name, plan.flows.filter((flow) => flow.class === name), end, sameDraws, flowByFlow.has(name));
  }
  for (const probe of plan.probes) {
    const at = `probes.${probe.name}${plan.probes.filter(({ name }) => name === probe.name).length > 1 ? `.${probe.id}` : ''}`;
    owner = at;
    put('traffic', at, `${probe.src} → ${probe.dst}, ${probe.sizeBytes} bytes every ${formatTime(probe.intervalNs)}`);
    put('tool', `${at}.tool`, probe.tool);
    if (sameDraws) put('traffic', `${at}.startNs`, probe.startNs);
  }
  plan.events.forEach((event, index) => {
    owner = `events.${index}`;
    const { queue, ...rest } = event.set;
    put('events', `events.${index}`, { at: formatTime(event.atNs), direction: event.direction, ...rest }, 'events.*');
    if (queue !== undefined) putQueue(put, `events.${index}.queue`, 'events.*.queue', queue);
  });
  owner = '';
  for (const [key, value] of Object.entries(plan.collect)) put('collect', `collect.${key}`, value);
  put('tcp', 'tcp.model', plan.tcp.model);
  for (const part of ['hostSysctls', 'routerSysctls'] as const) for (const [key, value] of Object.entries(plan.tcp[part])) put(/ecn/.test(key) ? 'ecn' : 'tcp', `tcp.${part}.${key}`, value);
  return leaves;
}

type Put = (category: PlanCategory, path: string, value: unknown, general?: string) => void;

function putDirection(put: Put, at: string, general: string, direction: PlanDirection, sameDraws: boolean): void {
  put('rate', `${at}.rateBps`, direction.rateBps, `${general}.rateBps`);
  put('rate', `${at}.overheadBytes`, direction.overheadBytes, `${general}.overheadBytes`);
  put('shaper', `${at}.shaper`, direction.shaper, `${general}.shaper`);
  if (direction.bucket !== undefined) put('shaper', `${at}.bucket`, direction.bucket, `${general}.bucket`);
  if (direction.queue !== null) putQueue(put, `${at}.queue`, `${general}.queue`, direction.queue);
  // netem's limit follows from rate × delay; the addresses an entry is for are no part of what it does.
  const wire = direction.wire.map(({ to: _, limitPackets: _limit, delayNs, ...rest }) => ({ ...(sameDraws ? { delayNs } : {}), ...rest }));
  put('delay', `${at}.wire`, wire, `${general}.wire`);
}

function putQueue(put: Put, at: string, general: string, queue: PlanQueue): void {
  put('queue', `${at}.kind`, queue.kind, `${general}.kind`);
  put('queue', `${at}.in`, queue.in, `${general}.in`);
  for (const [key, value] of Object.entries(queue.params)) put('queue', `${at}.params.${key}`, value, `${general}.params.${key}`);
  put('queue', `${at}.tc`, queue.tc, `${general}.tc`);
}

function putClass(put: Put, name: string, flows: readonly PlanFlow[], endNs: number, sameDraws: boolean, flowByFlow: boolean): void {
  const at = `flows of ${name}`;
  // Kinds whose number of flows the scenario states; arrivals over time give another number with every seed.
  const stated = sameDraws || flows.every((flow) => flow.kind !== 'short');
  put('traffic', at, stated ? `${flows.length} flow${flows.length === 1 ? '' : 's'}` : 'flows');
  if (flowByFlow) {
    flows.forEach((flow, index) => {
      const leaf = (category: PlanCategory, key: string, value: unknown): void => put(category, `${at}.${index}.${key}`, value, `${at}.*.${key}`);
      for (const key of ['kind', 'transport', 'src', 'dst', 'startNs', 'bytes', 'rateBps', 'packetBytes', 'bursts'] as const) leaf('traffic', key, flow[key]);
      leaf('traffic', 'stopNs', flow.stopNs === endNs ? 'end of the window' : flow.stopNs);
      leaf('delay', 'baseRttNs', flow.baseRttNs);
      leaf('cc', 'cc', flow.cc);
      leaf('ecn', 'ecn', flow.ecn);
      leaf('tool', 'tool', flow.tool);
      leaf('tool', 'toolArgs', flow.toolArgs);
      leaf('addressing', 'addresses', [flow.srcAddress, flow.srcPort, flow.dstAddress, flow.dstPort]);
    });
    return;
  }
  const all = (of: (flow: PlanFlow) => unknown): unknown => [...new Set(flows.map((flow) => plain(of(flow))))].sort().join(', ');
  put('traffic', `${at}.kind`, all((flow) => `${flow.transport} ${flow.kind}`));
  put('traffic', `${at}.rateBps`, all((flow) => flow.rateBps));
  put('traffic', `${at}.packetBytes`, all((flow) => flow.packetBytes));
  put('cc', `${at}.cc`, all((flow) => flow.cc));
  put('ecn', `${at}.ecn`, all((flow) => flow.ecn));
  put('tool', `${at}.tool`, all((flow) => [flow.tool, ...flow.toolArgs].join(' ')));
}

const delays = /\.(delay|rtt|jitter)(\.|$)/;

/** What the draws of a scenario are made from. Congestion control, ECN and tool are compared as the plan has them. */
function scenarioLeaves(variant: object): Leaves {
  const leaves: Leaves = new Map();
  const walk = (category: PlanCategory, at: string, value: unknown): void => {
    if (isObject(value) && !Array.isArray(value)) {
      for (const [key, inner] of Object.entries(value)) if (!['cc', 'ecn', 'tool', 'args', 'queue'].includes(key)) walk(category, `${at}.${key}`, inner);
    } else leaves.set(at, { category: delays.test(at) ? 'delay' : category, general: at, owner: at, value });
  };
  const parts = variant as Readonly<Record<string, unknown>>;
  walk('traffic', 'scenario.traffic', parts['traffic']);
  const topology = parts['topology'];
  if (!isObject(topology)) return leaves;
  for (const [part, links] of Object.entries(topology)) {
    if (!isObject(links) || Array.isArray(links)) continue;
    for (const [name, fields] of Object.entries(links)) {
      if (isObject(fields)) for (const key of ['delay', 'rtt', 'jitter', 'loss', 'duplicate', 'reorder']) if (key in fields) walk('delay', `scenario.topology.${part}.${name}.${key}`, (fields as Readonly<Record<string, unknown>>)[key]);
    }
  }
  return leaves;
}

const isObject = (value: unknown): value is object => value !== null && typeof value === 'object';

const plain = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));
const absent = 'absent';

function text(path: string, leaf: Leaf | undefined): string {
  if (leaf === undefined) return absent;
  const { value } = leaf;
  if (typeof value === 'number') {
    if (/Ns$/.test(path) || delays.test(path)) return formatTime(value);
    if (/Bps$/.test(path)) return formatRate(value);
  }
  if (value === null) return 'none';
  const words = plain(value).replaceAll(/\s+/g, ' '); // on one line, as a sysctl's numbers have tabs between them
  return words.length > 160 ? `${words.slice(0, 159)}…` : words;
}

/** Equal differences of many places are one entry; so are more than three kinds of a difference in one field. */
function compareLeaves(a: Leaves, b: Leaves): Difference[] {
  const groups = new Map<string, Map<string, { category: PlanCategory; where: string; reference: string; other: string; count: number }>>();
  for (const path of new Set([...a.keys(), ...b.keys()])) {
    const [left, right] = [a.get(path), b.get(path)];
    if (left !== undefined && right !== undefined && plain(left.value) === plain(right.value)) continue;
    const { category, general, owner } = (left ?? right)!;
    if (path !== owner && a.has(owner) !== b.has(owner)) continue;
    const [reference, other] = [text(path, left), text(path, right)];
    const kinds = groups.get(general) ?? new Map<string, never>();
    const key = JSON.stringify([reference, other]);
    const entry = kinds.get(key);
    if (entry === undefined) kinds.set(key, { category, where: path, reference, other, count: 1 });
    else entry.count++;
    groups.set(general, kinds);
  }
  return [...groups].flatMap(([general, kinds]): Difference[] => {
    const list = [...kinds.values()];
    if (list.length <= 3) return list.map((entry) => ({ ...entry, where: entry.count > 1 ? general : entry.where }));
    return [{ ...list[0]!, count: list.reduce((sum, { count }) => sum + count, 0) }];
  });
}
