import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import { projectFile } from '../../kernel/project.js';
import { tables } from './tables.js';

describe('docs/results.md', () => {
  it('describes every column of every record table, with its type and meaning', () => {
    const page = fs.readFileSync(projectFile('docs', 'results.md'), 'utf8');
    for (const table of Object.values(tables)) {
      assert.ok(page.includes(`### ${table.name}.parquet`), table.name);
      for (const column of table.columns) assert.ok(page.includes(`| \`${column.name}\` | ${column.type} | ${column.meaning} |`), `${table.name}.${column.name}`);
    }
  });
});
