import * as assert from 'node:assert/strict';
import * as fs from 'node:fs';
import { createRequire } from 'node:module';
import { parseDocument } from 'yaml';
import { z } from 'zod';
import { at, isMap, type DataMap } from './data.js';
import { scenarioJsonSchema, scenarioKeysMarkdown } from './json-schema.js';
import { loadText } from './load.js';
import { parseYaml } from './read.js';

const schema = scenarioJsonSchema();
const editor = z.fromJSONSchema(schema as Parameters<typeof z.fromJSONSchema>[0]);
const data = (file: string): DataMap => JSON.parse(JSON.stringify(parseYaml(fs.readFileSync(file, 'utf8'), file).data)) as DataMap;
const accepts = (value: unknown): boolean => editor.safeParse(value).success;

/** As an editor reads it: plain YAML, without the notations testbed takes besides. */
function plain(text: string): { readonly errors: readonly string[]; readonly value: unknown } {
  const document = parseDocument(text, { version: '1.2', prettyErrors: false });
  return { errors: document.errors.map((error) => error.message), value: document.errors.length > 0 ? null : document.toJS() as unknown };
}

/** ajv 6, a validator of draft 7 that many editors have: eslint brings it. */
interface Validator { (value: unknown): boolean; readonly errors?: unknown }
const Ajv = createRequire(createRequire(import.meta.url).resolve('eslint'))('ajv') as new (options: object) => { compile(schema: object): Validator };
const validate = new Ajv({ allErrors: true, schemaId: 'auto', logger: false }).compile(schema);

describe('the JSON Schema for editors', () => {
  for (const file of fs.readdirSync('topologies').filter((name) => name.endsWith('.yaml'))) {
    it(`accepts topologies/${file} as an editor reads it`, () => {
      const { errors, value } = plain(fs.readFileSync(`topologies/${file}`, 'utf8'));
      assert.deepEqual(errors, [], 'plain YAML');
      assert.ok(validate(value), JSON.stringify(validate.errors, null, 1));
      const result = editor.safeParse(data(`topologies/${file}`));
      assert.ok(result.success, JSON.stringify(result.error?.issues, null, 1));
    });
  }
  it('takes tool: flent for its kind, and nothing else without a kind', () => {
    const traffic = (more: object): object => ({ name: 't', topology: { routers: ['R1'], hosts: { S: { at: 'R1' }, D: { at: 'R1' } } }, traffic: { a: { from: 'S', to: 'D', ...more } } });
    assert.ok(validate(traffic({ kind: 'flent', test: 'rrul' })), JSON.stringify(validate.errors));
    assert.ok(validate(traffic({ tool: 'flent', test: 'tcp_nup', parameters: { upload_streams: 4 } })), JSON.stringify(validate.errors));
    assert.equal(validate(traffic({ test: 'rrul' })), false);
    assert.equal(validate(traffic({ tool: 'builtin', test: 'rrul' })), false);
    assert.equal(validate(traffic({ kind: 'flent' })), false);
  });
  it('takes ranges of hosts in every notation that is plain YAML', () => {
    for (const from of ['S1[0..1]', '"S1[0..1]"', 'S1', '"S1[3]"', '[S2, "S1[0..1]"]', '\n      - S1[0..1]\n      - S2']) {
      const { errors, value } = plain(`name: t\ntopology: { routers: [R1], hosts: { S1: { at: R1, count: 4 }, S2: { at: R1 } } }\ntraffic:\n  a:\n    kind: bulk\n    from: ${from}\n    to: S2\n    start: uniform(0s, 1s)\n`);
      assert.deepEqual(errors, [], from);
      assert.ok(validate(value), `${from}: ${JSON.stringify(validate.errors)}`);
    }
  });
  it('refuses what the loader would refuse by form', () => {
    const broken = (change: (scenario: DataMap) => void): boolean => {
      const scenario = data('topologies/parking-lot.yaml');
      change(scenario);
      const accepted = accepts(scenario);
      assert.equal(validate(JSON.parse(JSON.stringify(scenario))), accepted, 'two validators');
      return accepted;
    };
    const map = (scenario: DataMap, ...path: string[]): DataMap => { const found = at(scenario, path); assert.ok(isMap(found)); return found; };
    assert.equal(broken(() => undefined), true);
    assert.equal(broken((s) => { s['topologi'] = 1; }), false);
    assert.equal(broken((s) => { delete s['name']; }), false);
    assert.equal(broken((s) => { map(s, 'topology', 'links', 'BL1')['rate'] = 20; }), false);
    assert.equal(broken((s) => { map(s, 'topology', 'links', 'BL1')['queue'] = 'codell'; }), false);
    assert.equal(broken((s) => { map(s, 'topology', 'links', 'BL1')['queue'] = { kind: 'codel', targt: '5ms' }; }), false);
    assert.equal(broken((s) => { map(s, 'traffic', 'long')['kind'] = 'bulky'; }), false);
  });
  it('describes every key', () => {
    for (const row of scenarioKeysMarkdown().split('\n').filter((line) => line.startsWith('| `'))) assert.match(row, /^\| `[a-z]+`.* \| .{10,} \|$/, row);
  });
});

describe('docs/scenario.md', () => {
  it('shows examples that load', () => {
    const blocks = [...fs.readFileSync('docs/scenario.md', 'utf8').matchAll(/```yaml\n([\s\S]*?)```/g)].map((match) => match[1]!);
    assert.equal(blocks.length, 3);
    for (const extra of ['', blocks[1]!, blocks[2]!]) loadText(`${blocks[0]!}${extra}`, 'docs/scenario.md');
    assert.equal(loadText(`${blocks[0]!}${blocks[1]!}`, 'docs/scenario.md').variants.length, 12);
  });
  it('holds the table of keys as `testbed schema --format markdown` prints it', () => {
    const text = fs.readFileSync('docs/scenario.md', 'utf8');
    const between = /<!-- keys: .*? -->\n([\s\S]*?)<!-- end of keys -->/.exec(text);
    assert.ok(between, 'the marks of the table are missing');
    assert.equal(between[1]!.trim(), scenarioKeysMarkdown().trim(), 'run: npx testbed schema --format markdown, and put it between the marks');
  });
});
