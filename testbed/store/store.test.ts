import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { UserError } from '../errors.js';
import { projectFile } from '../../kernel/project.js';
import { runJson } from '../records/synthetic-raw.js';
import { Place, skip } from '../testing/command.js';
import { packetsSql, syntheticId, syntheticQueues, syntheticRun, writeSyntheticRuns } from '../testing/synthetic-runs.js';
import { openDatabase, sqlText } from '../records/database.js';
import { indexFolder, indexedRuns, scanRuns } from './run-index.js';
import { query } from './store.js';
import type { StoreOptions } from './store.js';
import { changeTags } from './tags.js';
import { ownColumns, sharedColumns, viewNames } from './views.js';

interface Answer { readonly rows: readonly (readonly unknown[])[]; readonly columns: readonly string[]; readonly used: Readonly<Record<string, number>> }

async function ask(resultsDir: string, sql: string, options: Partial<StoreOptions> = {}): Promise<Answer> {
  const result = await query(sql, { resultsDir, ...options });
  try {
    const rows: (readonly unknown[])[] = [];
    for await (const piece of result.pieces) for (const row of piece) rows.push(row.map((value) => (typeof value === 'bigint' ? Number(value) : value)));
    return { rows, columns: result.columns.map(({ name }) => name), used: result.used };
  } finally {
    result.close();
  }
}
async function refusal(resultsDir: string, sql: string): Promise<string> {
  try {
    await ask(resultsDir, sql);
  } catch (error) {
    assert.ok(error instanceof UserError, String(error));
    return error.message;
  }
  return assert.fail(`it was answered: ${sql}`);
}

describe('the results database', () => {
  let place: Place;
  let results: string;
  beforeEach(() => { place = new Place(); results = place.path('runs'); });
  afterEach(() => place.remove());

  describe('of fifty runs in sets', () => {
    beforeEach(() => writeSyntheticRuns(results, { runs: 50, packets: { runs: 50, rows: 400 } }));

    it('has a row a run, with what varied as columns', async () => {
      const { rows } = await ask(results, 'select run_id, scenario, engine, kernel, seed, queue, "topology.links.BL.rate", set_id, schema from runs order by started limit 1');
      assert.deepEqual(rows, [['synthetic-20260101-00000/run-0', 'synthetic', 'kernel', '6.12.117', 1, 'pfifo', '10mbit', 'synthetic-20260101-00000', 1]]);
    });

    it('has every figure of every complete run in long form, with unit, samples and method', async () => {
      const { rows } = await ask(results, "select queue, avg(value), any_value(unit), min(n), any_value(how) from metrics where metric = 'bottlenecks.BL1.queueDelayMs.p99' group by queue order by queue");
      const expected = syntheticQueues.map((name) => {
        const runs = Array.from({ length: 50 }, (_, i) => syntheticRun(i)).filter((run) => run.queue === name);
        return [name, runs.reduce((sum, run) => sum + run.p99, 0) / runs.length, 'ms', 1000, 'time from arrival at the queue to being handed to the link'];
      }).sort((a, b) => (a[0]! < b[0]! ? -1 : 1));
      assert.equal(rows.length, 5);
      rows.forEach((row, i) => {
        assert.deepEqual([row[0], ...row.slice(2)], [expected[i]![0], ...expected[i]!.slice(2)]);
        assert.ok(Math.abs((row[1] as number) - (expected[i]![1] as number)) < 1e-9);
      });
    });

    it('opens only the record files of runs that the conditions on run columns select', async () => {
      const used = async (sql: string): Promise<number> => (await ask(results, sql)).used['packets'] ?? 0;
      assert.equal(await used("select count(*) from packets where queue = 'codel'"), 10);
      assert.equal(await used("select count(*) from packets p where p.queue = 'codel' and seed in (1, 2) and size > 100"), 2);
      assert.equal(await used("select count(*) from packets p join runs r using (run_id) where r.queue = 'cake'"), 10);
      assert.equal(await used("select count(*) from packets p join runs r on p.run_id = r.run_id where r.wall_s > 0 and r.seed = 3"), 5);
      assert.equal(await used("select count(*) from packets p, runs r where p.run_id = r.run_id and r.seed = 3"), 5);
      assert.equal(await used("with x as (select * from packets where seed = 1) select count(*) from x"), 5);
      assert.equal(await used("select count(*) from (select * from packets where queue = 'pie' union all select * from packets where queue = 'cake')"), 20);
      assert.equal(await used("select count(*) from runs where exists (select 1 from packets p where p.seed = 2)"), 5);
    });

    it('opens all where a condition does not bind the view, and answers the same', async () => {
      for (const sql of [
        "select count(*) from packets where queue = 'codel' or size = 1500",
        "select count(*) from runs r left join packets p on p.run_id = r.run_id and p.seq = 0 where p.seed = 2 or p.run_id is null",
        'select count(*) from packets where seed > random()',
        "select count(*) from packets where run_id in (select run_id from runs where seed = 1)",
        "with packets as (select 1 as seed) select count(*) from packets where seed = 1",
        "select count(*) from packets p(a, queue) where queue = 'codel'",
        'select count(*) from packets tablesample bernoulli(100%) where seed = 1',
      ]) {
        const { used } = await ask(results, sql).catch((error: unknown) => assert.fail(`${sql}: ${String(error)}`));
        assert.ok(used['packets'] === undefined || used['packets'] === 50, `${sql}: ${used['packets']}`);
      }
      // A left join's right side must keep rows that WHERE would drop: they are what makes p.run_id null.
      const { rows } = await ask(results, 'select count(*) from runs r left join packets p on p.run_id = r.run_id and p.seq = 0 where p.run_id is null');
      assert.deepEqual(rows, [[0]]);
    });

    it('has null in a column that the tables were given since the runs were written', async () => {
      const { rows } = await ask(results, "select count(*), count(drop_reason) from packets where dropped and queue = 'codel' and seed <= 3");
      assert.deepEqual(rows, [[12, 0]]);
    });

    it('gives the packets of the runs that the condition selects, and their run columns', async () => {
      const { rows } = await ask(results, "select queue, count(distinct run_id), count(*), sum(dropped::int) from packets where queue in ('codel', 'pie') and seed <= 3 group by queue order by queue");
      assert.deepEqual(rows, [['codel', 3, 1200, 12], ['pie', 3, 1200, 12]]);
    });

    it('describes its views with the documented columns', async () => {
      for (const view of viewNames) {
        const { rows } = await ask(results, `describe ${view}`);
        const names = rows.map((row) => row[0]);
        for (const { name } of [...sharedColumns, ...ownColumns(view)]) assert.ok(names.includes(name), `${view}.${name}`);
        for (const name of ['queue', 'topology.links.BL.rate']) assert.ok(names.includes(name), `${view}.${name}`);
      }
    });

    it('leaves a half-written record file out, and says so', async () => {
      const file = path.join(results, syntheticId(0), 'packets.parquet');
      const half = fs.readFileSync(file).subarray(0, 900);
      fs.rmSync(file);
      fs.writeFileSync(file, half);
      const warnings: string[] = [];
      const { rows } = await ask(results, 'select count(*) from packets where seed = 1', { onWarning: (text) => warnings.push(text) });
      assert.deepEqual(rows, [[4 * 400]]);
      assert.equal(warnings.length, 1);
      assert.match(warnings[0]!, /run-0.packets\.parquet is half-written or damaged: left out/);
    });

    it('is the same when others remove and add runs, and rebuild the index, at the same time', async () => {
      const questions = Array.from({ length: 6 }, (_, i) => ask(results, 'select count(distinct run_id), count(*) from metrics').then(({ rows }) => rows[0], (error: unknown) => error instanceof Error ? `${i}: ${error.message}` : String(error)));
      fs.rmSync(path.join(results, 'synthetic-20260101-00004'), { recursive: true });
      fs.rmSync(indexFolder(results), { recursive: true, force: true });
      for (const answer of await Promise.all(questions)) assert.ok(Array.isArray(answer) && (answer[0] === 40 || answer[0] === 50), String(answer));
      assert.equal((await ask(results, 'select count(distinct run_id) from metrics')).rows[0]![0], 40);
    });

    it('sees a run that ended since, one that was removed, and a tag, without reading the others again', async () => {
      const old = new Date(Date.now() - 60_000);
      const age = (): void => { for (let i = 0; i < 50; i++) for (const part of ['', 'run.json']) fs.utimesSync(path.join(results, syntheticId(i), part), old, old); for (const name of fs.readdirSync(results)) if (!name.startsWith('.')) fs.utimesSync(path.join(results, name), old, old); };
      age();
      await ask(results, 'select count(*) from metrics');
      assert.equal(scanRuns(results).read, 0);
      const dir = path.join(results, syntheticId(3));
      fs.writeFileSync(path.join(dir, 'run.json.new'), JSON.stringify(runJson({ status: 'failed' })));
      fs.renameSync(path.join(dir, 'run.json.new'), path.join(dir, 'run.json'));
      assert.equal(scanRuns(results).read, 1);
      assert.equal((await ask(results, 'select count(distinct run_id) from metrics')).rows[0]![0], 49);
      fs.rmSync(path.join(results, syntheticId(5)), { recursive: true });
      assert.equal((await ask(results, 'select count(distinct run_id) from metrics')).rows[0]![0], 48);
      changeTags(path.join(results, 'synthetic-20260101-00001'), { add: ['paper'] });
      assert.equal((await ask(results, "select count(*) from runs where list_contains(tags, 'paper')")).rows[0]![0], 10);
      changeTags(path.join(results, 'synthetic-20260101-00001'), { remove: ['paper'] });
      assert.equal((await ask(results, "select count(*) from runs where list_contains(tags, 'paper')")).rows[0]![0], 0);
    });

    it('is made anew when its index is damaged, of another version, or half gone', async () => {
      const answer = (await ask(results, 'select sum(value) from metrics')).rows;
      const file = path.join(indexFolder(results), 'runs.json');
      const text = fs.readFileSync(file, 'utf8');
      fs.writeFileSync(file, text.slice(0, 1000));
      assert.deepEqual((await ask(results, 'select sum(value) from metrics')).rows, answer);
      fs.writeFileSync(file, text.replace('"schema":1', '"schema":99'));
      assert.deepEqual((await ask(results, 'select sum(value) from metrics')).rows, answer);
      for (const name of fs.readdirSync(indexFolder(results))) if (name.endsWith('.parquet')) fs.writeFileSync(path.join(indexFolder(results), name), 'PAR1');
      assert.deepEqual((await ask(results, 'select sum(value) from metrics')).rows, answer);
    });

    it('answers from a folder that may not be written', async function () {
      if (process.getuid?.() === 0) {
        // Root may write everywhere: a file in the index's place has the same effect.
        fs.writeFileSync(indexFolder(results), '');
      } else {
        fs.chmodSync(results, 0o555);
      }
      assert.equal((await ask(results, 'select count(distinct run_id) from metrics')).rows[0]![0], 50);
      assert.equal((await ask(results, 'select count(distinct run_id) from metrics')).rows[0]![0], 50);
    });
  });

  it('reads nothing but the results folder, writes nothing, and cannot be talked out of it', async () => {
    await writeSyntheticRuns(results, { runs: 2, perSet: 0 });
    const outside = place.write('secret.csv', 'a\n1\n');
    const target = path.join(results, 'x.csv');
    for (const sql of [
      `select * from read_csv(${sqlText(outside)})`, `select * from read_text(${sqlText(path.join(results, '..', 'secret.csv'))})`, `select * from glob(${sqlText(place.path('*'))})`,
      `copy (select 1) to ${sqlText(target)}`, `attach ${sqlText(target)} as other`, 'create table t (a int)', 'insert into runs values (1)', 'drop view runs', `export database ${sqlText(place.path('db'))}`,
      'set enable_external_access = true', 'pragma database_list', 'install httpfs', 'select 1; select 2', 'explain select 1',
      `select * from query('copy (select 1) to ''${target}''')`,
    ]) assert.match(await refusal(results, sql), /read-only|reads the runs and nothing else|give one|Parser|SELECT/, sql);
    assert.equal(fs.existsSync(target), false);
    assert.deepEqual(fs.readdirSync(results).sort(), ['.index', 'synthetic-20260101-000000', 'synthetic-20260101-000001']);
    assert.equal((await ask(results, `select count(*) from read_json(${sqlText(path.join(results, '*', 'run.json'))})`)).rows[0]![0], 2);
  });

  it('names the place of a mistake and what comes near', async () => {
    await writeSyntheticRuns(results, { runs: 2, perSet: 0 });
    assert.match(await refusal(results, 'select t_enqeue from packets'), /^query:1:8: no column t_enqeue; near: t_enqueue/);
    assert.match(await refusal(results, 'select rate from runs'), /near: "topology\.links\.BL\.rate"/);
    assert.match(await refusal(results, 'select *\nfrom metric'), /^query:2:6: no view metric; the views are metrics, /);
    assert.match(await refusal(results, 'select * frm runs'), /^query:1:14: syntax error/);
    assert.match(await refusal(results, "select 'ä', medan(seed) from runs"), /^query:1:13: no scalar function medan; near: .*(mean|median)/);
    assert.match(await refusal(results, "select cast('x' as int) from runs"), /^query:1:8: .*Could not convert string 'x'/);
    assert.match(await refusal(results, ' '), /the query is empty/);
    for (const sql of ['select ?', 'select $1 from runs']) assert.match(await refusal(results, sql), /it has parameters/);
    assert.deepEqual((await ask(results, 'select seed from runs where seed < 1e400 order by 1')).rows, [[1], [2]], 'a number beyond a double');
  });

  it('shows runs that do not count in runs only, and counts them when asked', async () => {
    const add = (id: string, over: object): void => { fs.mkdirSync(path.join(results, id), { recursive: true }); fs.writeFileSync(path.join(results, id, 'run.json'), JSON.stringify({ ...runJson(), ...over })); };
    await writeSyntheticRuns(results, { runs: 3, perSet: 0 });
    add(syntheticId(1, 0), { status: 'invalid' });
    add('newer', { schema: 2 });
    add('older', { schema: 0 });
    fs.mkdirSync(path.join(results, 'torn', 'raw'), { recursive: true });
    fs.writeFileSync(path.join(results, 'torn', 'run.json'), '{"schema": 1, "na');
    fs.mkdirSync(path.join(results, 'not-a-run', 'deeper'), { recursive: true });
    const warnings: string[] = [];
    const { rows } = await ask(results, 'select run_id, status, schema, error from runs order by run_id', { onWarning: (text) => warnings.push(text) });
    assert.deepEqual(rows, [
      ['newer', 'unreadable', 2, 'it is of schema 2, written by a newer testbed; this one reads 1'], ['older', 'unreadable', 0, 'it is of schema 0, written by an older testbed; this one reads 1'],
      [syntheticId(0, 0), 'complete', 1, null], [syntheticId(1, 0), 'invalid', 1, null], [syntheticId(2, 0), 'complete', 1, null], ['torn', 'unreadable', null, 'run.json is not whole'],
    ]);
    assert.deepEqual(warnings.map((text) => text.slice(0, 28)).sort(), ['1 run folder is of schema 0,', '1 run folder is of schema 2,']);
    assert.equal((await ask(results, 'select count(distinct run_id) from metrics')).rows[0]![0], 2);
    assert.equal((await ask(results, 'select count(distinct run_id) from metrics', { allRuns: true })).rows[0]![0], 3);
  });

  it('calls a varied parameter that a view has a column of by varied_<name>', async () => {
    for (const [i, cc] of ['cubic', 'bbr'].entries()) {
      fs.mkdirSync(path.join(results, `r${i}`), { recursive: true });
      fs.writeFileSync(path.join(results, `r${i}`, 'run.json'), JSON.stringify(runJson({ varied: { cc, CC: 'x', Queue: 'q' } })));
    }
    assert.deepEqual((await ask(results, 'select varied_cc, varied_cc_2, queue from runs order by run_id')).rows, [['x', 'cubic', 'q'], ['x', 'bbr', 'q']], 'names that differ in case only are told apart by a number');
    assert.deepEqual((await ask(results, 'select cc from flows')).rows, []);
  });

  it("has a queue's own state where the queue has it, and null for the others", async () => {
    await writeSyntheticRuns(results, { runs: 2, perSet: 0 });
    const database = await openDatabase();
    for (const [i, state] of ['', ', 0.5::double as prob'].entries()) await database.run(`COPY (select 1::bigint as t, 'BL1' as bottleneck, 3::bigint as backlog_packets${state}) TO ${sqlText(path.join(results, syntheticId(i, 0), 'queue.parquet'))} (FORMAT parquet)`);
    database.close();
    assert.deepEqual((await ask(results, 'select seed, prob from queue order by seed')).rows, [[1, null], [2, 0.5]]);
    assert.deepEqual((await ask(results, 'select prob from queue where seed = 1')).rows, [[null]], 'also where only runs without it are read');
  });

  it('has no rows, and no folder, where there are no runs', async () => {
    for (const view of viewNames) assert.deepEqual((await ask(results, `select count(*) from ${view}`)).rows, [[0]], view);
    assert.equal(fs.existsSync(results), false);
  });

  it('knows ten thousand runs, reads each once, and finds the one that is new', async () => {
    await writeSyntheticRuns(results, { runs: 10_000, perSet: 20 });
    const old = new Date(Date.now() - 60_000);
    for (const set of fs.readdirSync(results)) {
      for (const run of fs.readdirSync(path.join(results, set))) {
        fs.utimesSync(path.join(results, set, run, 'run.json'), old, old);
        fs.utimesSync(path.join(results, set, run), old, old);
      }
      fs.utimesSync(path.join(results, set), old, old);
    }
    assert.equal(scanRuns(results).read, 10_000);
    const again = scanRuns(results);
    assert.equal(again.read, 0);
    assert.equal(indexedRuns(again.index).length, 10_000);
    const sql = "select count(*), count(distinct run_id), sum(value) from metrics where figure = 'queueDelayMs' and statistic = 'p99' and name = 'BL1' and class is null";
    const sum = Array.from({ length: 10_000 }, (_, i) => syntheticRun(i)).filter(({ status }) => status === 'complete').reduce((all, { p99 }) => all + p99, 0);
    const first = (await ask(results, sql)).rows[0]!;
    assert.deepEqual(first.slice(0, 2), [9900, 9900]);
    assert.ok(Math.abs((first[2] as number) - sum) < 1e-6);
    fs.cpSync(path.join(results, syntheticId(0, 20)), path.join(results, 'one-more'), { recursive: true });
    assert.equal(scanRuns(results).read, 1);
    assert.deepEqual((await ask(results, sql)).rows[0]!.slice(0, 2), [9901, 9901]);
    const segments = scanRuns(results).index.segments;
    assert.ok(segments.length === 2 && segments.some(({ runs }) => runs === 1), 'the large segment was not written again for one run');
  });
});

describe('the snippets of docs/query.md', () => {
  let place: Place;
  before(async () => {
    place = new Place();
    await writeSyntheticRuns(place.path('results/runs'), { runs: 20, packets: { runs: 20, rows: 400 } });
    const database = await openDatabase();
    await database.run(`COPY (${packetsSql(400)}) TO ${sqlText(place.path('packets.parquet'))} (FORMAT parquet)`);
    database.close();
  });
  after(() => place.remove());
  const page = fs.readFileSync(projectFile('docs', 'query.md'), 'utf8');
  const snippets = (language: string): string[] => [...page.matchAll(new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\``, 'gm'))].map((match) => match[1]!);

  it('for the shell run and print rows', async function () {
    const commands = snippets('sh').flatMap((text) => [...text.matchAll(/^npx testbed (query "(?:[^"\\]|\\.)*"(?: --format \w+)?)/gm)].map((match) => match[1]!));
    assert.ok(commands.length >= 4, 'the page has queries');
    for (const command of commands) {
      const [, sql, format] = /^query "((?:[^"\\]|\\.)*)"(?: --format (\w+))?/.exec(command)!;
      const { code, stdout, stderr } = await place.testbed(['query', sql!.replaceAll(/\\(.)/g, '$1'), ...(format === undefined ? [] : ['--format', format])]);
      assert.equal(code, 0, `${command}: ${stderr}`);
      assert.ok(stdout.trim().split('\n').length > 2, `${command} printed ${stdout}`);
    }
  });

  it('stand beside every column of runs and metrics, and of all views', () => {
    for (const { name } of [...sharedColumns, ...ownColumns('runs'), ...ownColumns('metrics')]) assert.ok(page.includes(`\`${name}\``), name);
    for (const view of viewNames) assert.ok(page.includes(`\`${view}\``), view);
  });

  const languages = [
    { language: 'python', program: 'python3', packages: (text: string) => [...text.matchAll(/engine="(\w+)"|^import (pandas)/gm)].map((match) => match[1] ?? match[2]!), check: (names: readonly string[]) => ['-c', `import sys${names.map((name) => `, ${name}`).join('')}`] },
    { language: 'r', program: 'Rscript', packages: (text: string) => [...text.matchAll(/^library\((\w+)\)/gm)].map((match) => match[1]!), check: (names: readonly string[]) => ['-e', `0; ${names.map((name) => `library(${name})`).join(';')}`] },
  ];
  for (const { language, program, packages, check } of languages) {
    snippets(language).forEach((text, i) => {
      const needs = packages(text);
      it(`in ${language}${needs.length > 0 ? ` with ${needs.join(' and ')}` : ''} run and print`, function () {
        if (spawnSync(program, check(needs), { stdio: 'ignore' }).status !== 0) skip(this, `${[program, ...needs].join(' with ')} is not installed`);
        // npx finds the program where it is installed; here that is this checkout.
        const bin = place.path('bin');
        fs.mkdirSync(bin, { recursive: true });
        fs.writeFileSync(path.join(bin, 'npx'), `#!/bin/sh\nshift\nexec '${process.execPath}' '${projectFile('bin', 'testbed.cjs')}' "$@"\n`, { mode: 0o755 });
        const output = execFileSync(program, [place.write(`snippet-${i}.${language}`, text)], { cwd: place.folder, encoding: 'utf8', env: { ...process.env, PATH: `${bin}:${process.env['PATH'] ?? ''}` } });
        assert.match(output, /codel|mean|Mean/);
      });
    });
  }
});
