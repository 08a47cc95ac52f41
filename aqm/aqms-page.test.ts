/** docs/aqms.md and the registries say the same. */

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { qdiscs } from '../testbed/qdiscs/registry.js';
import { aqms } from './registry.js';
import { redShape } from './red-float.js';

const PAGE = fs.readFileSync('docs/aqms.md', 'utf8');
const rows = (section: string): string[][] =>
  section.split('\n').filter((line) => line.startsWith('| ') && !/^\| kind \|/.test(line)).map((line) => line.slice(1, -1).split('|').map((cell) => cell.trim()));
const ticked = (cell: string): string[] => [...cell.matchAll(/`([^`]+)`/g)].map((match) => match[1]!);

const [overview = '', , parameters = ''] = PAGE.split('\n## ');

describe('docs/aqms.md', () => {
  it('names every kind of both registries once, and no other', () => {
    const named = rows(overview).flatMap((row) => ticked(row[0]!));
    assert.deepEqual([...named].sort(), [...new Set([...aqms.keys(), ...qdiscs.keys()])].sort());
  });

  it('says rightly which the kernel has, and in which file ours is', () => {
    for (const [kinds = '', , kernel = '', file = '', differences = ''] of rows(overview)) {
      for (const kind of ticked(kinds)) {
        const since = qdiscs.get(kind)?.since;
        assert.match(kernel, !qdiscs.has(kind) ? /^(no|within)\b/ : since === undefined ? /^yes$/ : new RegExp(`^from ${since.replace('.', '\\.')}$`), kind);
        const [name = ''] = ticked(file);
        assert.equal(name !== '', aqms.has(kind), kind);
        assert.ok(fs.existsSync(`aqm/${name}`), name);
      }
      assert.ok(differences.length > 0);
    }
  });

  it('names every parameter of the disciplines the kernel does not have', () => {
    const documented = new Map(rows(parameters).flatMap((row) => (ticked(row[0]!).length > 0 ? ticked(row[0]!) : ['']).map((kind) => [kind, ticked(row[1]!)])));
    for (const key of Object.keys(redShape)) assert.ok(documented.get('')!.includes(key), key);
    for (const kind of aqms.values()) {
      if (qdiscs.has(kind.kind)) continue;
      const own = Object.keys(kind.schema.shape);
      const shared = 'wait' in kind.schema.shape ? documented.get('')! : [];
      const known = new Set([...shared, ...(documented.get(kind.kind) ?? [])]);
      assert.deepEqual(own.filter((key) => !known.has(key)), [], kind.kind);
    }
  });
});
