/** `testbed validate` as a user meets it: verdicts, exit codes, what it leaves, and that it goes on after being killed. */

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { projectFile } from '../../kernel/project.js';
import { figuresOf } from '../compare/figures.js';
import { findFigure } from '../expect/metric-names.js';
import { eventually, needsUml, Place } from '../testing/command.js';
import { dumbbellText } from '../testing/scenarios.js';
import type { Validation } from '../validate/validation.js';

const outcome = (out: string): Validation => JSON.parse(fs.readFileSync(path.join(out, 'validation.json'), 'utf8')) as Validation;
const runFolders = (out: string): string[] => (fs.existsSync(path.join(out, 'runs')) ? fs.readdirSync(path.join(out, 'runs')) : []).flatMap((name) => fs.readdirSync(path.join(out, 'runs', name)).map((run) => path.join(out, 'runs', name, run)));
/** Without those still being made. */
const ended = (out: string): string[] => runFolders(out).filter((folder) => !folder.includes('.part-'));
const startedOf = (out: string): Record<string, string> => Object.fromEntries(ended(out).map((folder) => [path.basename(folder), (JSON.parse(fs.readFileSync(path.join(folder, 'run.json'), 'utf8')) as { started: string }).started]));

describe('testbed validate', function () {
  this.timeout(1_000_000);
  before(needsUml);
  let place: Place;
  beforeEach(() => { place = new Place(); });
  afterEach(() => place.remove());
  const short = (more: string, name = 'short'): string => dumbbellText({ name, queue: 'codel', rate: '10mbit', rtt: '20ms', cc: 'reno', measure: '{ warmup: 1s, duration: 3s }', more });

  it('goes through scenarios/smoke: every cell passes', async () => {
    const out = place.path('out');
    const ended = await place.testbed(['validate', projectFile('scenarios', 'smoke'), '--out', out], { boundMs: 900_000 });
    assert.equal(ended.code, 0, ended.stdout + ended.stderr);
    assert.match(ended.stdout, /0 fail, 0 invalid/);
    const { cells } = outcome(out);
    assert.ok(cells.length >= 7 && cells.every(({ figures }) => figures.length > 0));
    for (const name of ['index.html', 'junit.xml']) assert.ok(fs.statSync(path.join(out, name)).size > 1000);
    assert.deepEqual(fs.readdirSync(runFolders(out)[0]!).filter((name) => name === 'packets.parquet'), [], 'records of cells that pass are not kept');
    await place.assertNothingLeft();
  });

  it('has a name for every figure of metrics.json, so that each can be expected', async () => {
    const out = place.path('out');
    const ended = await place.testbed(['sim', place.write('all.yaml', dumbbellText({ traffic: '{ bulk: { kind: bulk, from: S, to: D, rtt: 20ms }, web: { kind: short, from: S, to: D, rtt: 20ms, arrival: poisson(4/s), size: 20kB } }', probes: '{ ping: { from: S, to: D } }' })), '--no-report', '--out', out]);
    assert.equal(ended.code, 0, ended.stderr);
    const metrics = JSON.parse(fs.readFileSync(path.join(place.run(out), 'metrics.json'), 'utf8')) as object;
    const owners = { bottlenecks: ['BL'], classes: ['bulk', 'web'], probes: ['ping'] };
    for (const name of Object.keys(figuresOf(metrics))) {
      const found = findFigure(name, owners);
      assert.ok(typeof found !== 'string', `${name}: ${String(found)}`);
      assert.equal(`${found.part}.${found.owner}.${found.field}`, name);
    }
  });

  it('tells a difference (exit 1), and a wrong file beside good ones without stopping them (exit 2)', async () => {
    place.write('some/good.yaml', short('seeds: [1, 2]\nvary: { traffic.bulk.cc: [reno, cubic] }\nexpect: [BL.utilisation >= 10%]', 'good'));
    place.write('some/wrong.yaml', short('expect: [BL.utilisation <= 10%]', 'wrong'));
    const out = place.path('out');
    const both = await place.testbed(['validate', 'some', '--out', out]);
    assert.equal(both.code, 1, both.stderr);
    assert.match(both.stderr, /✗ wrong: fail.*kernel: BL.utilisation <= 10%: 9\d/);
    assert.deepEqual(outcome(out).cells.map(({ title, status }) => [title, status]), [['good (cc=reno)', 'pass'], ['good (cc=cubic)', 'pass'], ['wrong', 'fail']]);
    const failed = outcome(out).cells[2]!;
    assert.ok(failed.reports.some(({ title }) => title === 'compared') && failed.reports.every(({ href }) => fs.existsSync(path.join(out, href))), JSON.stringify(failed.reports));

    // The same again, beside two files that are not scenarios and one no kernel can run: nothing is run twice.
    const before = startedOf(out);
    place.write('some/bad.yaml', short('expect: [BL.utilisaton >= 10%]', 'bad'));
    place.write('some/worse.yml', 'name: [');
    place.write('some/none.yaml', dumbbellText({ name: 'none', cc: 'nosuch' }));
    const again = await place.testbed(['validate', 'some', '--out', out, '--table', 'table.md']);
    assert.equal(again.code, 2, again.stderr);
    assert.match(again.stderr, /3 cells, 10 runs.*, 10 of them done before/);
    assert.match(again.stderr, /bad\.yaml:\d+: expect\[0\].*did you mean "utilisation"/);
    assert.match(again.stderr, /worse\.yml:1.*is not YAML/);
    assert.match(again.stderr, /none\.yaml[^]*nosuch/);
    assert.deepEqual(startedOf(out), before);
    assert.match(fs.readFileSync(place.path('table.md'), 'utf8'), /\| cubic \| pass \|/);
    await place.assertNothingLeft();
  });

  it('refuses what is not there before it starts', async () => {
    for (const [args, words] of [[['nowhere'], /there is no such file or folder/], [['.'], /no scenario/], [[place.write('a/x.yaml', short('')), '--machine', 'moon'], /expected one of auto, local, uml/], [[place.write('a/x.yaml', short('')), '--only', 'moon'], /no cell is called that; there are short/]] as const) {
      const cwd = place.path('empty');
      fs.mkdirSync(cwd, { recursive: true });
      const ended = await place.testbed(['validate', ...args, '--out', place.path('out')], { cwd });
      assert.equal(ended.code, 2, ended.stderr);
      assert.match(ended.stderr, words);
    }
    assert.equal(fs.existsSync(place.path('out')), false);
  });

  it('goes on where it was stopped, by Ctrl-C or by kill -9, and keeps what was done', async () => {
    const file = place.write('short.yaml', short('seeds: [1, 2, 3]\nvary: { traffic.bulk.cc: [reno, cubic] }'));
    const out = place.path('out');
    let kept: Record<string, string> = {};
    for (const [index, signal] of (['SIGKILL', 'SIGINT'] as const).entries()) {
      const started = place.start(['validate', file, '--out', out, '--jobs', '1']);
      await eventually('some runs are done and one is going', () => ended(out).length >= 3 * (index + 1) && ended(out).length < 11 && runFolders(out).some((folder) => folder.includes('.part-')));
      started.child.kill(signal);
      const end = await started.ended;
      if (signal === 'SIGKILL') assert.equal(end.signal, 'SIGKILL');
      else {
        assert.equal(end.code, 130, end.stderr);
        assert.match(end.stderr, /Interrupted after \d of 2 cells; the same command goes on/);
        assert.deepEqual(runFolders(out).filter((folder) => folder.includes('.part-')), []);
      }
      const now = startedOf(out);
      for (const [name, when] of Object.entries(kept)) assert.equal(now[name], when, `${name} was not run again`);
      kept = now;
    }
    const last = await place.testbed(['validate', file, '--out', out]);
    assert.ok(last.code === 0 || last.code === 1, last.stderr); // whether so short a run agrees is not asked here
    assert.match(last.stderr, /2 cells, 12 runs.*, (?:[6-9]|1[01]) of them done before/);
    const now = startedOf(out);
    assert.equal(runFolders(out).length, 12, 'no half run is left');
    for (const [name, when] of Object.entries(kept)) assert.equal(now[name], when);
    await place.assertNothingLeft();
  });
});

describe('expectations of single runs and sets', function () {
  this.timeout(240_000);
  const place = new Place();
  after(() => place.remove());
  let outs = 0;
  const sim = async (expect: string, more: readonly string[] = []): Promise<{ code: number | null; stdout: string; json: string }> => {
    const out = place.path(`out-${outs++}`);
    const { code, stdout } = await place.testbed(['sim', place.write('x.yaml', dumbbellText({ queue: 'codel', rtt: '20ms', more: `expect: ${expect}` })), '--no-report', '--out', out, ...more]);
    return { code, stdout, json: fs.readFileSync(path.join(place.run(out), 'expectations.json'), 'utf8') };
  };

  it('are told line by line, written beside the figures, and decide the exit code', async () => {
    const good = await sim('[BL.utilisation >= 10%, sim ~ kernel]');
    assert.equal(good.code, 0, good.stdout);
    assert.match(good.stdout, /Expectations: 1 of 2 hold, 1 needs the other engine[^]*pass +BL.utilisation >= 10% +\d/);
    const bad = await sim('[BL.utilisation <= 10%]', ['--set', 'seeds=[1, 2, 3]']);
    assert.equal(bad.code, 1, bad.stdout);
    assert.match(bad.stdout, /FAIL +BL.utilisation <= 10% +\d+.* %, median of 3 seeds/);
    assert.match(bad.json, /"status": "fail"[^]*"n": 3/);
    const unjudged = await sim('[BL.utilisation >= 10%, bulk.fctS.p50 <= 1s]');
    assert.equal(unjudged.code, 2, unjudged.stdout);
    assert.match(unjudged.stdout, /not judged +bulk.fctS.p50 <= 1s/);
  });

  it('of a run that failed cannot be judged (exit 2)', async function () {
    needsUml.call(this);
    const out = place.path('failed');
    const { code, stdout, stderr } = await place.testbed(['run', place.write('f.yaml', dumbbellText({ queue: "{ kind: raw, tc: [codel, tarjet, 5ms] }", rtt: '20ms', more: 'expect: [BL.utilisation >= 10%]' })), '--machine', 'uml', '--no-report', '--out', out]);
    assert.equal(code, 2, stdout + stderr);
    assert.match(stdout, /not judged +BL.utilisation >= 10% +seed 1 is failed: .*tarjet/);
  });
});
