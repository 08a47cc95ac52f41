import * as assert from 'node:assert/strict';
import * as fs from 'node:fs';
import { z } from 'zod';
import { at, isMap, type DataMap } from './data.js';
import { scenarioJsonSchema, scenarioKeysMarkdown } from './json-schema.js';
import { loadText } from './load.js';
import { parseYaml } from './read.js';

const schema = scenarioJsonSchema();
const editor = z.fromJSONSchema(schema as Parameters<typeof z.fromJSONSchema>[0]);
const data = (file: string): DataMap => JSON.parse(JSON.stringify(parseYaml(fs.readFileSync(file, 'utf8'), file).data)) as DataMap;
const accepts = (value: unknown): boolean => editor.safeParse(value).success;

describe('the JSON Schema for editors', () => {
  for (const file of fs.readdirSync('topologies').filter((name) => name.endsWith('.yaml'))) {
    it(`accepts topologies/${file}`, () => {
      const result = editor.safeParse(data(`topologies/${file}`));
      assert.ok(result.success, JSON.stringify(result.error?.issues, null, 1));
    });
  }
  it('refuses what the loader would refuse by form', () => {
    const broken = (change: (scenario: DataMap) => void): boolean => {
      const scenario = data('topologies/parking-lot.yaml');
      change(scenario);
      return accepts(scenario);
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
