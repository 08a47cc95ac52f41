/**
 * The plan's tests (traffic of kind flent): each sending host runs flent once, and each stream and ping that flent's own
 * definition of the test has becomes a flow or a probe of the plan, with ports of its own. So every record, metric
 * and the simulator know them as any other flow.
 *
 *   netperf TCP_STREAM     a bulk flow from the sending host
 *   netperf TCP_MAERTS     a bulk flow to it
 *   ping (fping)           a probe, round-trip times
 *   udp_rtt, voip (irtt)   a probe, round-trip and one-way times
 *   anything else          in flent's data file only
 *
 * A test with streams both ways makes two classes, NAME.up and NAME.down; any other the class NAME.
 */

import { pairId, type Expanded, type Host, type TrafficClass } from '../scenario/expand.js';
import { enumerate, suggestion } from '../scenario/names.js';
import type { Path, Problem } from '../scenario/problem.js';
import { readDefinition, type DefinedSeries, type Definition } from '../traffic/flent-definition.js';
import { formatTime } from '../units.js';
import type { PlanFlow, PlanProbe, PlanSeries, PlanTest } from './plan.js';
import { probePort, type Ports } from './ports.js';
import { stream } from './randomness.js';
import type { PairDelay } from './wire.js';

const second = 1e9;
const defaults = { delayNs: 5 * second, stepNs: 200e6 } as const;
/** fping's 56 bytes of data and the headers; irtt's packet with its time stamps; of its voip test 172 bytes (a G.711 packet). */
const probeBytes = { ping: 56 + 8, udp_rtt: 60 + 8, voip: 172 + 8 } as const;
const voipIntervalNs = 20e6;

/** Programs by flent's runner; `process`: the command's first word. */
const programs: Readonly<Record<string, string>> = {
  netperf_demo: 'netperf', ping: 'fping', udp_rtt: 'irtt', voip: 'irtt', iperf_csv: 'iperf', http_getter: 'http-getter', dash_js: 'bash',
  tc: 'bash', cpu_stats: 'bash', netstat: 'bash', wifi_stats: 'bash', ss: 'bash',
};

/** What `flent` of scenario/traffic makes beside the common keys. */
interface FlentSpec { readonly test: string; readonly length?: number; readonly delay?: number; readonly step?: number; readonly parameters?: Readonly<Record<string, string | number | boolean>> }

export interface TestParts {
  readonly expanded: Expanded;
  readonly seed: number;
  readonly ip: 4 | 6;
  readonly endNs: number;
  readonly delays: ReadonlyMap<string, PairDelay>;
  readonly addressOf: (host: Host) => string;
  readonly ports: Ports;
}

/**
 * @param flows @param probes those of the plan so far; the tests' own are appended
 * @throws what `fail` makes of a problem: no such test, no room for it, a parameter missing
 */
export function planTests(parts: TestParts, flows: PlanFlow[], probes: PlanProbe[], fail: (problem: Problem) => Error): PlanTest[] {
  const tests: PlanTest[] = [];
  for (const c of parts.expanded.classes) {
    if (c.spec.kind !== 'flent') continue;
    const receivers = new Map<Host, Host[]>();
    for (const { src, dst } of c.pairs) receivers.set(src, [...(receivers.get(src) ?? []), dst]);
    for (const [src, hosts] of receivers) {
      for (let n = 0; n < (c.spec.flows ?? 1); n++) tests.push(planTest(parts, c, src, hosts, n, tests.length, flows, probes, fail));
    }
  }
  return tests;
}

function planTest(parts: TestParts, c: TrafficClass, src: Host, hosts: readonly Host[], n: number, id: number, flows: PlanFlow[], probes: PlanProbe[], fail: (problem: Problem) => Error): PlanTest {
  const { endNs, delays, addressOf, ports } = parts;
  const spec = c.spec as unknown as FlentSpec & Pick<TrafficClass['spec'], 'start' | 'stop'>;
  const path: Path = ['traffic', c.name];
  const problem = (key: string | null, message: string): Error => fail({ path: key === null ? path : [...path, key], message });

  const startNs = spec.start === undefined ? 0 : Math.round(stream(parts.seed, 'traffic', c.name, src.name, String(n)).draw(spec.start));
  const stopNs = Math.min(spec.stop ?? endNs, endNs);
  const delaySeconds = (spec.delay ?? defaults.delayNs) / second;
  const room = Math.floor((stopNs - startNs) / second) - 2 * delaySeconds;
  const lengthSeconds = spec.length === undefined ? room : spec.length / second;
  if (lengthSeconds < 1) throw problem(null, `there is no room for a test of flent from ${formatTime(startNs)} to ${formatTime(stopNs)} with ${delaySeconds} s of pings alone before and after its streams; expected a longer run, or a shorter delay`);

  const parameters = Object.fromEntries(Object.entries(spec.parameters ?? {}).map(([key, value]) => [key, String(value)]));
  const stepSeconds = (spec.step ?? defaults.stepNs) / second;
  const definition = readDefinition({ test: spec.test, ip: parts.ip, hosts: hosts.map(addressOf), lengthSeconds, delaySeconds, stepSeconds, parameters });
  if (!definition.found) throw notFound(definition, spec.test, problem);
  const { totalSeconds } = definition;
  if (startNs + totalSeconds * second > stopNs) {
    throw problem(spec.length === undefined ? null : 'length', `flent's ${spec.test} takes ${totalSeconds} s (streams of ${lengthSeconds} s, and ${delaySeconds} s before and after), from ${formatTime(startNs)}, and would not be over by ${formatTime(stopNs)}; expected a shorter length or delay, or a longer run`);
  }

  const byAddress = new Map(hosts.map((host) => [addressOf(host), host]));
  const receiverOf = (series: DefinedSeries): Host => (series.host === null ? undefined : byAddress.get(series.host)) ?? hosts[0]!;
  const unused = hosts.find((host) => !definition.series.some((series) => receiverOf(series) === host));
  if (unused !== undefined) throw problem('to', `flent's ${spec.test} sends nothing to ${unused.name}: with these parameters it has a single host to send to from ${src.name}; expected fewer receiving hosts`);

  const isUp = (series: DefinedSeries): boolean => series.runner === 'netperf_demo' && series.test === 'TCP_STREAM';
  const isDown = (series: DefinedSeries): boolean => series.runner === 'netperf_demo' && series.test === 'TCP_MAERTS';
  const bothWays = definition.series.some(isUp) && definition.series.some(isDown);
  const end = Math.round(startNs + totalSeconds * second);
  const series = definition.series.map((each): PlanSeries => {
    const dst = receiverOf(each);
    let flow: number | null = null;
    let probe: number | null = null;
    if (isUp(each) || isDown(each)) {
      const cc = each.cc?.split(',')[0] ?? parameters['tcp_cong_control']?.split(',')[isDown(each) ? 1 : 0] ?? c.cc;
      const taken = ports.next(src, dst, 'flent', 'tcp', cc);
      if (taken === undefined) throw problem('tool', `${dst.name} has no port left for another stream of flent; expected fewer streams`);
      const from = Math.round(startNs + each.delay * second);
      const up = { src: src.name, dst: dst.name, srcAddress: addressOf(src), dstAddress: addressOf(dst), srcPort: taken.srcPort, dstPort: taken.dstPort };
      flow = flows.length;
      flows.push({
        id: flow, class: bothWays ? `${c.name}.${isUp(each) ? 'up' : 'down'}` : c.name, kind: 'bulk', transport: 'tcp', tool: 'flent',
        ...(isUp(each) ? up : { src: up.dst, dst: up.src, srcAddress: up.dstAddress, dstAddress: up.srcAddress, srcPort: up.dstPort, dstPort: up.srcPort }),
        startNs: from, stopNs: each.bytes === null ? Math.min(end, Math.round(from + (each.length ?? lengthSeconds) * second)) : null, bytes: each.bytes, cc, ecn: c.ecn,
        rateBps: null, packetBytes: null, bursts: null, toolArgs: [], baseRttNs: delays.get(pairId(src, dst))!.baseRttNs,
      });
    } else if (each.runner === 'ping' || each.runner === 'udp_rtt' || each.runner === 'voip') {
      probe = probes.length;
      const from = Math.round(startNs + each.delay * second);
      probes.push({
        id: probe, name: `${c.name}.${probeName(each.name, hosts, addressOf)}`, tool: each.runner === 'ping' ? 'fping' : 'irtt', src: src.name, dst: dst.name, srcAddress: addressOf(src), dstAddress: addressOf(dst),
        port: probePort(probe), startNs: from, stopNs: Math.min(end, Math.round(from + (each.length ?? totalSeconds) * second)),
        intervalNs: each.runner === 'voip' ? voipIntervalNs : Math.round((each.interval ?? stepSeconds) * second), sizeBytes: probeBytes[each.runner] + (parts.ip === 6 ? 40 : 20),
      });
    }
    return { name: each.name, program: each.command ?? programs[each.runner] ?? each.runner, host: dst.name, flow, probe, marking: each.marking };
  });
  return {
    id, tool: 'flent', class: c.name, test: spec.test, src: src.name, srcAddress: addressOf(src), hosts: hosts.map((host) => ({ node: host.name, address: addressOf(host) })),
    startNs, lengthSeconds, delaySeconds, totalSeconds, stepSeconds, parameters, args: c.spec.args ?? [], series,
  };
}

/** `Ping (ms) UDP EF` → `ping-udp-ef`; an address in it becomes its host's name. */
function probeName(series: string, hosts: readonly Host[], addressOf: (host: Host) => string): string {
  const named = hosts.reduce((text, host) => text.replaceAll(addressOf(host), host.name), series.replace('(ms)', ''));
  return named.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-').replaceAll(/^-|-$/g, '');
}

function notFound({ tests, error }: Definition & { found: false }, test: string, problem: (key: string | null, message: string) => Error): Error {
  if (error === null) return problem('test', `flent has no test "${test}"; ${suggestion(test, tests)}expected ${enumerate(tests)}`);
  const said = error.replace(/^Error loading test '[^']*': /, '').replace(/\.$/, '');
  return problem(said.includes('test parameter') ? 'parameters' : said.includes('hosts') ? 'to' : null, `flent says of its test ${test}: ${said}`);
}
