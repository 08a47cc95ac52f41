/** Replay of short runs on a real kernel: every discipline it judges agrees, every broken one is noticed, and what cannot be judged is said. */

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { selectKernel } from '../../kernel/select.js';
import { findRuns } from '../cli/runs.js';
import { captureFields, type CaptureDictionary } from '../records/raw.js';
import { fieldOffsets, headerBytes, readRecordHeader, readRecords, RecordWriter } from '../records/record-file.js';
import { brokenAqms } from '../testing/broken-aqms.js';
import { needsUml, Place, skip } from '../testing/command.js';
import { dumbbellText } from '../testing/scenarios.js';
import { zLimit } from './chance.js';
import { replayRun, type ReplayResult, type Verdict } from './replay.js';

const exact = ['codel', 'fq_codel', '{ kind: fq_codel, limit: 300p }', '{ kind: pfifo, limit: 60p }', '{ kind: bfifo, limit: 60kB }', 'sfq', '{ kind: sfq, headdrop: true, limit: 60p }', '{ kind: drr, limit: 30p }', 'pfifo_fast', 'fq', '{ kind: hhf, admit_bytes: 20kB, limit: 200p }'];
const chance = ['{ kind: red, limit: 600p, min: 10p, max: 80p, probability: 0.1 }', '{ kind: pie, ecn: true }', '{ kind: fq_pie, ecn: true }', 'cake'];
/** Judged whole with one flow. */
const single = ['sfb', '{ kind: choke, min: 10p, max: 30p, limit: 100p }'];
const shown = ['{ kind: codel, ecn: true }', 'fq_codel', '{ kind: pie, ecn: true }'];
/** DualPI2 is in the kernel since 6.17. */
const recent = selectKernel('7.3').kernel !== null;

/** The verdict on the run's only bottleneck, judged as `judged`. */
function verdictOf(result: ReplayResult, judged: string): Exclude<Verdict, { verdict: 'not judged' }> {
  const found = result.verdicts.find((verdict) => verdict.judged === judged);
  assert.ok(found !== undefined && found.verdict !== 'not judged', JSON.stringify(result));
  return found;
}

/** A copy of a run as it was recorded before packet records held hashes. */
function withoutHashes(dir: string, copy: string): string {
  fs.cpSync(dir, copy, { recursive: true });
  for (const name of fs.readdirSync(path.join(copy, 'raw')).filter((one) => /^captures-.*\.rec$/.test(one))) {
    const from = path.join(dir, 'raw', name);
    const { rowBytes } = readRecordHeader(from);
    const writer = new RecordWriter(path.join(copy, 'raw', name), 'captures', {}, captureFields);
    for (const { bytes, rows } of readRecords(from)) {
      for (let row = 0; row < rows; row++) {
        const at = writer.claim();
        new Uint8Array(writer.data.buffer).set(bytes.subarray(row * rowBytes, row * rowBytes + 28), at);
      }
    }
    writer.close();
  }
  return copy;
}

/** A copy of a run whose packets are stamped a reading of the virtual clock early, as in records from before `monotonicNs` was among them. */
function stampedEarly(dir: string, copy: string): string {
  fs.cpSync(dir, copy, { recursive: true });
  fs.rmSync(path.join(copy, 'packets.parquet')); // says when the last packet was
  for (const name of fs.readdirSync(path.join(copy, 'raw')).filter((one) => /^captures-.*\.rec$/.test(one))) {
    const file = path.join(copy, 'raw', name);
    const header = readRecordHeader(file), at = fieldOffsets(header)['t']!;
    const bytes = fs.readFileSync(file);
    for (let row = headerBytes + at; row + header.rowBytes <= bytes.length; row += header.rowBytes) bytes.writeDoubleLE(bytes.readDoubleLE(row) - 256, row);
    fs.writeFileSync(file, bytes);
  }
  return copy;
}

describe('testbed replay', function () {
  this.timeout(300_000);
  before(needsUml);
  const place = new Place();
  after(() => place.remove());
  /** Run folders by the kind of queue; several of one kind in the order of `queues`. */
  const runs = new Map<string, string[]>();

  before(async () => {
    const traffic = '{ reno: { kind: bulk, from: "S[0..3]", to: "D[0..3]", rtt: 20ms, cc: reno, tool: builtin }, marked: { kind: bulk, from: "S[4..5]", to: "D[4..5]", rtt: 30ms, cc: cubic, ecn: true, tool: builtin }, '
      + 'flood: { kind: onoff, from: "S[0]", to: "D[0]", rate: 25mbit, packet: 700B, "on": 300ms, "off": 2s } }';
    let files = 0;
    const scenario = (queues: readonly string[], seconds: number, rest: string): string => place.write(`replay-${files++}.yaml`, dumbbellText({ pairs: 6, traffic, measure: `{ warmup: 500ms, duration: ${seconds}s }`, more: `vary: { queue: [${queues.join(', ')}] }\ntcp: { sysctls: { net.core.txrehash: 0 } }\n${rest}` }));
    const everyMs = 'collect: { queue: 1ms }';
    const alone = place.write('single.yaml', dumbbellText({ measure: '{ warmup: 500ms, duration: 9s }', cc: 'reno', rtt: '40ms', more: `vary: { queue: [${single.join(', ')}] }\n${everyMs}` }));
    const l4s = place.write('l4s.yaml', dumbbellText({ pairs: 4, measure: '{ warmup: 500ms, duration: 9s }', more: everyMs, queue: 'dualpi2', traffic: '{ classic: { kind: bulk, from: "S[0..1]", to: "D[0..1]", rtt: 20ms, cc: cubic, tool: builtin }, l4s: { kind: bulk, from: "S[2..3]", to: "D[2..3]", rtt: 20ms, cc: dctcp, tool: builtin } }' }));
    const sets = [
      ['exact', scenario(exact, 4, ''), 'uml'], ['chance', scenario(chance, 7, everyMs), 'uml'], ['single', alone, 'uml'],
      ...(recent ? [['recent', l4s, 'uml:7.3'] as const] : []),
    ] as const;
    for (const [name, file, machine] of sets) {
      const out = place.path(`out-${name}`);
      const ended = await place.testbed(['run', file, '--machine', machine, '--no-report', '--out', out], { boundMs: 280_000 });
      assert.ok(ended.code === 0 || ended.code === 1, ended.stderr);
      for (const { dir, run } of findRuns(out)[0]!.runs) {
        const kind = run!.varied['queue']?.replace(/\(.*/, '') ?? 'dualpi2';
        runs.set(kind, [...runs.get(kind) ?? [], dir]);
      }
    }
  });

  it('agrees in every decision and sample of codel, fq_codel, pfifo, bfifo, sfq, drr, pfifo_fast, fq, hhf and the threshold policy', async () => {
    for (const kind of ['codel', 'fq_codel', 'pfifo', 'bfifo', 'sfq', 'drr', 'pfifo_fast', 'fq', 'hhf']) {
      for (const dir of runs.get(kind)!) {
        const result = await replayRun(dir);
        assert.equal(result.exitCode, 0, JSON.stringify(result));
        for (const judged of kind === 'pfifo' ? ['pfifo', 'threshold'] : [kind]) {
          const verdict = verdictOf(result, judged);
          assert.ok(verdict.method === 'exact');
          const { arrivals, departures, kernelDrops, differentDepartures, differentFates, differentMarks, samples } = verdict.outcome;
          assert.ok(departures > 5000 && arrivals > departures && kernelDrops > 10, `${dir}: ${arrivals} arrivals, ${kernelDrops} drops`);
          assert.deepEqual([differentDepartures, differentFates, differentMarks, samples?.different], [0, 0, 0, 0]);
          assert.ok(samples!.samples > 400);
          // A run begins with a whole second of the kernel's clock, 0 or 512 ns into CoDel's unit: its packets are stamped without a step too many.
          if (kind === 'codel' || kind === 'fq_codel') assert.ok(verdict.phaseNs === 0 || verdict.phaseNs === 512, `${dir}: ${verdict.phaseNs}`);
        }
        const written = JSON.parse(fs.readFileSync(path.join(dir, 'replay.json'), 'utf8')) as ReplayResult;
        assert.deepEqual([written.exitCode, written.verdicts[0]!.verdict], [0, 'agree']);
      }
    }
  });

  it('finds as many drops and marks by chance as the probabilities say, and every sample the kernel\'s (PIE\'s and DualPI2\'s probability among them)', async () => {
    for (const kind of ['red', 'pie', 'fq_pie', 'sfb', ...(recent ? ['dualpi2'] : [])]) {
      const result = await replayRun(runs.get(kind)![0]!);
      const verdict = verdictOf(result, kind);
      assert.ok(verdict.method === 'chance');
      assert.equal(verdict.verdict, 'agree', JSON.stringify(verdict));
      const { differentDepartures, differentFates, differentMarks, samples, chance } = verdict.outcome;
      const { asked, happened, expected, deviation } = chance!.tallies.signals!;
      assert.ok(happened > 20 && asked > 3000, `${happened} of ${asked}`);
      assert.ok(Math.abs(happened - expected) <= zLimit * deviation);
      assert.deepEqual([differentDepartures, differentFates, differentMarks, samples?.different], [0, 0, 0, 0]);
    }
  });

  it('agrees in every decision and sample of CAKE, whose turns come when the rounding of their quanta allows, and of CHOKe with one flow', async () => {
    for (const kind of ['cake', 'choke']) {
      const verdict = verdictOf(await replayRun(runs.get(kind)![0]!), kind);
      assert.equal(verdict.verdict, 'agree', JSON.stringify(verdict));
      assert.ok(verdict.outcome.kernelDrops > 10 && verdict.outcome.samples!.samples > 400 && verdict.outcome.chance !== null);
    }
  });

  it('agrees in fq_codel and fq without hashes, as in older records, where no socket takes a new one', async () => {
    for (const kind of ['fq_codel', 'fq']) {
      const verdict = verdictOf(await replayRun(withoutHashes(runs.get(kind)![0]!, place.path(`${kind}-older`))), kind);
      assert.equal(verdict.verdict, 'agree', JSON.stringify(verdict));
      assert.equal(verdict.buckets!.from, 'order');
    }
  });

  it('agrees in fq_codel, fq_pie and fq where sockets that time out take new hashes, and so other queues', async () => {
    const traffic = '{ bulk: { kind: bulk, from: S[0], to: D[0], flows: 16, rtt: 10ms, cc: reno, tool: builtin } }';
    const file = place.write('rehash.yaml', dumbbellText({ rate: '5mbit', traffic, measure: '{ warmup: 500ms, duration: 8s }', more: 'vary: { queue: [fq_codel, fq_pie, fq] }' }));
    const ended = await place.testbed(['run', file, '--machine', 'uml', '--no-report', '--out', place.path('rehash')], { boundMs: 280_000 });
    assert.equal(ended.code, 0, ended.stderr);
    const moves = new Map<string, number>();
    for (const { dir } of findRuns(place.path('rehash'))[0]!.runs) {
      const [verdict] = (await replayRun(dir)).verdicts;
      assert.ok(verdict?.verdict === 'agree' && verdict.outcome.kernelDrops > 100, JSON.stringify(verdict));
      assert.ok(verdict.buckets?.from === 'hash');
      moves.set(verdict.kind, verdict.buckets.moves!);
    }
    assert.ok(moves.size === 3 && moves.get('fq_codel')! > 10, JSON.stringify([...moves]));
  });

  it('agrees in PIE and FQ-PIE where retransmission timers go off in the jiffies of their updates; not where the packets are stamped a reading of the clock early', async () => {
    const traffic = '{ bulk: { kind: bulk, from: S[0], to: D[0], flows: 16, rtt: 200ms, cc: reno, tool: builtin } }';
    const file = place.write('instant.yaml', dumbbellText({ rate: '5mbit', traffic, measure: '{ warmup: 500ms, duration: 20s }', more: 'vary: { queue: [pie, fq_pie] }' }));
    const ended = await place.testbed(['run', file, '--machine', 'uml', '--no-report', '--out', place.path('instant')], { boundMs: 280_000 });
    assert.equal(ended.code, 0, ended.stderr);
    for (const { dir } of findRuns(place.path('instant'))[0]!.runs) {
      const [verdict] = (await replayRun(dir)).verdicts;
      assert.ok(verdict?.verdict === 'agree' && verdict.outcome.kernelDrops > 300 && verdict.undecidable === 0, JSON.stringify(verdict));
      if (verdict.kind !== 'pie') continue;
      const early = stampedEarly(dir, place.path('early'));
      assert.equal(verdictOf(await replayRun(early), 'pie').verdict, 'disagree');
      // Of an older record nobody can say whether its stamps or the queue discipline are to blame.
      const [dictionary] = fs.readdirSync(path.join(early, 'raw')).filter((one) => /^captures-.*\.json$/.test(one)).map((one) => path.join(early, 'raw', one));
      const { directions, lost } = JSON.parse(fs.readFileSync(dictionary!, 'utf8')) as CaptureDictionary;
      fs.writeFileSync(dictionary!, JSON.stringify({ directions, lost }));
      const [older] = (await replayRun(early)).verdicts;
      assert.ok(older?.verdict === 'not judged' && older.reason.includes('run it again'), JSON.stringify(older));
    }
  });

  it('agrees in CAKE with hundreds of short flows, some of which are given a queue that was used before', async () => {
    const traffic = '{ bulk: { kind: bulk, from: S[0], to: D[0], flows: 3, rtt: 40ms, cc: cubic, tool: builtin }, short: { kind: short, from: S[0], to: D[0], rtt: 40ms, arrival: poisson(30/s), size: 60kB, tool: builtin } }';
    const file = place.write('used.yaml', dumbbellText({ rate: '40mbit', traffic, queue: '{ kind: cake, flows: true }', measure: '{ warmup: 500ms, duration: 9s }', more: 'tcp: { sysctls: { net.core.txrehash: 0 } }' }));
    const ended = await place.testbed(['run', file, '--machine', 'uml', '--no-report', '--out', place.path('used')], { boundMs: 280_000 });
    assert.equal(ended.code, 0, ended.stderr);
    const known = verdictOf(await replayRun(place.run('used')), 'cake');
    assert.equal(known.verdict, 'agree', JSON.stringify(known));
    assert.ok(known.buckets!.queues > 200 && known.outcome.chance!.tallies.reused === undefined, 'hashes tell which queues were used before');
    const guessed = verdictOf(await replayRun(withoutHashes(place.run('used'), place.path('used-older'))), 'cake');
    assert.equal(guessed.verdict, 'agree', JSON.stringify(guessed));
    const { asked, happened, expected } = guessed.outcome.chance!.tallies.reused!;
    assert.ok(asked > 100 && happened > 3 && expected > 3, JSON.stringify(guessed.outcome.chance));
  });

  it('agrees in CAKE where four flows of one host share a quantum, if rounds that do not show are settled by later departures, and else is not judged', async () => {
    const traffic = '{ bulk: { kind: bulk, from: S[0], to: D[0], flows: 4, rtt: 40ms, cc: cubic, tool: builtin } }';
    const file = place.write('shared.yaml', dumbbellText({ rate: '60mbit', traffic, queue: '{ kind: cake, bandwidth: 40mbit }', measure: '{ warmup: 500ms, duration: 4s }', more: 'seeds: [1, 2, 3, 4]' }));
    const ended = await place.testbed(['run', file, '--machine', 'uml', '--no-report', '--out', place.path('shared')], { boundMs: 280_000 });
    assert.equal(ended.code, 0, ended.stderr);
    const verdicts = (await Promise.all(findRuns(place.path('shared'))[0]!.runs.map(async ({ dir }) => (await replayRun(dir)).verdicts))).flat();
    assert.equal(verdicts.length, 4);
    assert.ok(verdicts.every(({ verdict }) => verdict !== 'disagree'), JSON.stringify(verdicts));
    const agreeing = verdicts.filter((verdict) => verdict.verdict === 'agree');
    assert.ok(agreeing.length > 0, JSON.stringify(verdicts));
    for (const verdict of agreeing) {
      assert.ok(verdict.verdict !== 'not judged');
      const { outcome } = verdict;
      const { turns } = outcome.chance!.tallies;
      assert.ok(outcome.departures > 10_000 && turns!.asked > 100 && turns!.happened > 30, JSON.stringify(turns));
    }
  });

  it('agrees in every decision and sample of CHOKe and SFB with several flows, though no packet tells which CHOKe took out of its queue nor which flows share SFB\'s bins', async () => {
    const traffic = '{ reno: { kind: bulk, from: "S[0..2]", to: "D[0..2]", rtt: "uniform(10ms, 40ms)", cc: reno, tool: builtin }, cubic: { kind: bulk, from: "S[3..5]", to: "D[3..5]", rtt: "uniform(10ms, 40ms)", cc: cubic, tool: builtin, ecn: true } }';
    const file = place.write('several.yaml', dumbbellText({ pairs: 6, traffic, measure: '{ warmup: 500ms, duration: 7s }', more: 'vary: { queue: [{ kind: choke, min: 10p, max: 50p, limit: 100p }, { kind: sfb, limit: 100p, max: 20p }] }\ntcp: { sysctls: { net.ipv4.tcp_ecn_fallback: 0 } }\ncollect: { queue: 1ms }' }));
    const ended = await place.testbed(['run', file, '--machine', 'uml', '--no-report', '--out', place.path('several')], { boundMs: 280_000 });
    assert.equal(ended.code, 0, ended.stderr);
    const dirs = new Map(findRuns(place.path('several'))[0]!.runs.map(({ dir, run }) => [run!.varied['queue']!.replace(/\(.*/, ''), dir]));
    for (const kind of ['choke', 'sfb']) {
      const result = await replayRun(dirs.get(kind)!);
      const verdict = verdictOf(result, kind);
      assert.equal(verdict.verdict, 'agree', JSON.stringify(verdict));
      const { departures, samples, chance } = verdict.outcome;
      assert.ok(departures > 8000 && samples!.samples > 7000 && samples!.different === 0, JSON.stringify(verdict.outcome));
      assert.ok((kind === 'choke' ? chance!.tallies.matches : chance!.tallies.signals)!.happened > 20, JSON.stringify(chance));
    }
    for (const { name, kind, aqms } of brokenAqms.filter((one) => one.kind === 'choke' || one.kind === 'sfb')) {
      assert.notEqual((await replayRun(dirs.get(kind)!, { aqms, keep: false })).exitCode, 0, name);
    }
  });

  it('agrees with CAKE out of memory: bytes that Linux counts a packet, the queue it drops from, BLUE', async () => {
    const traffic = '{ much: { kind: cbr, from: S[0], to: D[0], rate: 28mbit, packet: 1400B }, some: { kind: cbr, from: S[1], to: D[1], rate: 3mbit, packet: 300B } }';
    const file = place.write('memory.yaml', dumbbellText({ pairs: 2, traffic, queue: '{ kind: cake, memlimit: 300kB }', measure: '{ warmup: 500ms, duration: 4s }', more: 'collect: { queue: 1ms }' }));
    const ended = await place.testbed(['run', file, '--machine', 'uml', '--no-report', '--out', place.path('memory')], { boundMs: 280_000 });
    assert.equal(ended.code, 0, ended.stderr);
    const verdict = verdictOf(await replayRun(place.run('memory')), 'cake');
    assert.equal(verdict.verdict, 'agree', JSON.stringify(verdict));
    const { chance, samples } = verdict.outcome;
    assert.ok(chance!.tallies.drops!.happened > 200 && samples!.samples > 4000, JSON.stringify(verdict.outcome));
  });

  it('agrees under TBF, which looks at the next packet early; a replay that does not is noticed', async () => {
    const file = place.write('tbf.yaml', dumbbellText({ pairs: 2, measure: '{ warmup: 500ms, duration: 4s }', more: `vary: { queue: [${shown.join(', ')}] }\n` }).replace('queue: fq_codel', 'queue: fq_codel, shaper: tbf'));
    const ended = await place.testbed(['run', file, '--machine', 'uml', '--no-report', '--out', place.path('tbf')], { boundMs: 280_000 });
    assert.equal(ended.code, 0, ended.stderr);
    for (const { dir } of findRuns(place.path('tbf'))[0]!.runs) {
      const result = await replayRun(dir);
      assert.equal(result.exitCode, 0, JSON.stringify(result));
      assert.ok(result.verdicts.every((verdict) => verdict.verdict !== 'not judged' && verdict.outcome.departures > 3000));
    }
    const codel = findRuns(place.path('tbf'))[0]!.runs.find(({ run }) => run!.varied['queue']!.startsWith('codel'))!.dir;
    const plan = path.join(codel, 'raw', 'plan.json');
    fs.writeFileSync(plan, fs.readFileSync(plan, 'utf8').replace(/"shaper":\s*"tbf"/, '"shaper": "htb"'));
    assert.equal((await replayRun(codel, { keep: false })).exitCode, 1);
  });

  for (const { name, fault, kind, aqms } of brokenAqms) {
    it(`notices ${name}: ${fault}`, async function () {
      if (kind === 'dualpi2' && !recent) skip(this, 'kernel 7.3 is not built (testbed kernel build 7.3)');
      for (const dir of runs.get(kind)!) {
        const result = await replayRun(dir, { aqms, keep: false });
        assert.equal(result.exitCode, 1, JSON.stringify(result));
        const verdict = verdictOf(result, kind);
        assert.equal(verdict.verdict, 'disagree');
        if (verdict.method === 'exact') assert.ok(verdict.outcome.first !== null && Object.keys(verdict.outcome.first.ourState).length > 2 && verdict.outcome.first.kernelSample !== null);
      }
    });
  }

  it('agrees from packets.parquet too, where raw/ has no captures', async () => {
    const dir = runs.get('codel')![0]!;
    const copy = place.path('copy');
    fs.cpSync(dir, copy, { recursive: true });
    for (const name of fs.readdirSync(path.join(copy, 'raw')).filter((one) => one.startsWith('captures-'))) fs.rmSync(path.join(copy, 'raw', name));
    const verdict = verdictOf(await replayRun(copy), 'codel');
    assert.equal(verdict.from, 'packets.parquet');
    assert.ok(verdict.method === 'exact' && verdict.outcome.departures > 5000);
    // The order of equal times is lost there: at most a few departures may differ for it.
    assert.ok(verdict.outcome.differentDepartures < 10, JSON.stringify(verdict.outcome));
  });

  it('prints a table and exits with 0, 1 or 2', async () => {
    const codel = runs.get('codel')![0]!;
    const agreed = await place.testbed(['replay', codel]);
    assert.equal(agreed.code, 0, agreed.stderr);
    assert.match(agreed.stdout, /BL: codel.* 0 +0 +\d+ +agree/);
    assert.ok(agreed.stdout.split('\n').every((line) => line.length <= 80), agreed.stdout);
    const json = await place.testbed(['replay', codel, '--json', '--bottleneck', 'BL']);
    assert.equal((JSON.parse(json.stdout) as ReplayResult[])[0]!.verdicts[0]!.verdict, 'agree');
    const elsewhere = await place.testbed(['replay', codel, '--bottleneck', 'BL.reverse']);
    assert.deepEqual([elsewhere.code, elsewhere.stderr.trim()], [2, 'no bottleneck BL.reverse with a queue in this run; there are BL']);

    // A plan that says another interval than the kernel had.
    const copy = place.path('tampered');
    fs.cpSync(codel, copy, { recursive: true });
    const plan = path.join(copy, 'raw', 'plan.json');
    fs.writeFileSync(plan, fs.readFileSync(plan, 'utf8').replace('"kind":"codel","in":"kernel","params":{}', '"kind":"codel","in":"kernel","params":{"interval":20000000}').replace(/("kind": "codel",\s*"in": "kernel",\s*"params": )\{\}/, '$1{"interval": 20000000}'));
    const disagreed = await place.testbed(['replay', copy]);
    assert.equal(disagreed.code, 1, disagreed.stdout);
    assert.match(disagreed.stdout, /first disagreement\n {2}at \d+\.\d+ s, after .* departures that agreed: [^]*\n {2}kernel: packet [^]*\n {2}ours: [^]*\n {2}our state: [^]*count [^]*\n {2}kernel's last sample: [^]*count/);
  });

  it('cannot judge a run of the simulator, and says so', async () => {
    const file = place.write('sim.yaml', dumbbellText({ queue: 'codel', measure: '{ warmup: 100ms, duration: 400ms }' }));
    assert.equal((await place.testbed(['sim', file, '--no-report', '--out', place.path('sim')])).code, 0);
    const ended = await place.testbed(['replay', 'last', '--out', place.path('sim')]);
    assert.equal(ended.code, 2);
    assert.match(ended.stdout, /not judged: a run of the\s+simulator/);
  });
});
