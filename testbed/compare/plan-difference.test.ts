import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import { compile, expandRuns } from '../plan/compile.js';
import type { Plan } from '../plan/plan.js';
import { load, loadText } from '../scenario/load.js';
import { dumbbellText } from '../testing/scenarios.js';
import type { DumbbellText } from '../testing/scenarios.js';
import { planDifferences, refusing } from './plan-difference.js';
import type { Difference } from './plan-difference.js';

const scenarioOf = (text: DumbbellText, set: readonly string[] = []): ReturnType<typeof loadText> => loadText(dumbbellText(text), 'x.yaml', { set });
const planOf = (text: DumbbellText, seed = 1, set: readonly string[] = []): Plan => compile(scenarioOf(text, set), { seed });
const between = (a: DumbbellText, b: DumbbellText, set: readonly string[] = []): Difference[] => planDifferences(planOf(a), planOf(b, 1, set));
const categories = (differences: readonly Difference[]): string[] => [...new Set(differences.map(({ category }) => category))].sort();
const refuses = (differences: readonly Difference[]): string[] => categories(differences).filter((category) => (refusing as readonly string[]).includes(category));

const web = '{ web: { kind: web, from: S, to: D, rtt: 20ms, think: exponential(200ms), objects: uniform(1, 4), size: exponential(20kB), spacing: exponential(10ms) } }';

describe('differences of plans', () => {
  it('of one plan and itself there are none, and of two seeds of one scenario neither', () => {
    assert.deepEqual(between({}, {}), []);
    for (const traffic of [undefined, web]) {
      const text = traffic === undefined ? { pairs: 3 } : { traffic };
      const scenario = scenarioOf(text);
      const [a, b] = [planOf(text, 1), planOf(text, 2)];
      if (traffic !== undefined) assert.notEqual(a.flows.length, b.flows.length); // arrivals are drawn
      assert.deepEqual(planDifferences(a, b, [scenario.variants[0], scenario.variants[0]]), []);
    }
  });

  it('another queue, congestion control or ECN is what people compare', () => {
    const queue = between({ queue: 'fq_codel' }, { queue: '{ kind: pie, target: 5ms }' });
    assert.deepEqual(refuses(queue), []);
    assert.deepEqual(queue.filter(({ where }) => where.endsWith('.kind')).map(({ where, reference, other }) => [where, reference, other]), [['links.BL.forward.queue.kind', 'fq_codel', 'pie']]);
    assert.ok(queue.some(({ where, other }) => where.endsWith('params.target') && other !== 'absent'));
    const cc = between({ cc: 'cubic', pairs: 2 }, { cc: 'reno', pairs: 2 });
    assert.deepEqual(refuses(cc), []);
    assert.deepEqual(cc.find(({ category }) => category === 'cc'), { category: 'cc', where: 'flows of bulk.*.cc', count: 2, reference: 'cubic', other: 'reno' });
    const ecn = between({}, {}, ['traffic.bulk.ecn=true']);
    assert.deepEqual(refuses(ecn), []);
    assert.ok(categories(ecn).includes('ecn'));
  });

  it('another rate, window, delay, number of hosts, workload or chain of events is another experiment, and said in units', () => {
    assert.deepEqual(between({}, { rate: '10mbit' }).find(({ category }) => category === 'rate'), { category: 'rate', where: 'links.BL.forward.rateBps', count: 1, reference: '20mbit', other: '10mbit' });
    const window = between({}, { measure: '{ warmup: 500ms, duration: 3s }' });
    assert.deepEqual(refuses(window), ['window']);
    assert.deepEqual([window[0]!.reference, window[0]!.other], ['1.5s', '3s']);
    assert.ok(refuses(between({}, { rtt: '40ms' })).includes('delay'));
    const hosts = between({ pairs: 4 }, { pairs: 2 });
    assert.deepEqual(refuses(hosts), ['topology', 'traffic']);
    assert.ok(hosts.length <= 6, 'of a host that is not there its absence is said, not its every field');
    assert.deepEqual(refuses(between({}, {}, ['traffic.bulk.start=300ms'])), ['traffic']);
    assert.deepEqual(refuses(between({}, { more: 'events: [{ at: 1s, set: { BL.rate: 5mbit } }]' })), ['events']);
    assert.deepEqual(refuses(between({}, { probes: '{ p: { from: S[0], to: D[0], interval: 10ms } }' })), ['traffic']);
  });

  it('two seeds of any topology of the project may be compared', () => {
    for (const file of fs.readdirSync('topologies').filter((name) => name.endsWith('.yaml'))) {
      const scenario = load(`topologies/${file}`);
      const [a, b] = expandRuns(scenario, { seeds: [1, 2] }).map(({ plan }) => plan) as [Plan, Plan];
      const found = planDifferences(a, b, [scenario.variants[0], scenario.variants[0]]);
      assert.deepEqual(categories(found).filter((category) => category !== 'tcp'), [], file); // buffers follow from drawn RTTs
    }
  });

  it('between seeds, what the draws come from is compared', () => {
    const [a, b] = [{ traffic: web }, { traffic: web.replace('20kB', '90kB') }];
    const found = planDifferences(planOf(a, 1), planOf(b, 2), [scenarioOf(a).variants[0], scenarioOf(b).variants[0]]);
    assert.deepEqual(refuses(found), ['traffic']);
    assert.match(found.find(({ category }) => category === 'traffic')!.where, /scenario\.traffic\.web\.size/);
    assert.deepEqual(refuses(planDifferences(planOf({}, 1), planOf({ rate: '10mbit' }, 2))), ['rate']);
  });
});
