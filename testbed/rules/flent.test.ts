/** `kind: flent`, on a real kernel in virtual time: flent, netperf, irtt and fping as they are installed. */

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { gunzipSync } from 'node:zlib';
import { findProgram } from '../../kernel/project.js';
import type { Metrics } from '../analysis/metrics.js';
import { openDatabase, sqlText } from '../records/database.js';
import { digests, needsFlent, needsUml, Place, runJson, skip } from '../testing/command.js';

const scenario = (test: string, lengthS: number): string => `name: flent
topology:
  routers: [R1, R2]
  links: { BL: { between: [R1, R2], rate: 10mbit, queue: fq_codel } }
  hosts: { S: { at: R1 }, D: { at: R2 } }
traffic:
  load: { tool: flent, test: ${test}, from: S, to: D, rtt: 20ms, cc: reno, length: ${lengthS}s, delay: 1s, step: 100ms }
measure: { warmup: 1s, duration: ${lengthS + 2}s }
`;
const metricsOf = (runDir: string): Metrics => JSON.parse(fs.readFileSync(path.join(runDir, 'metrics.json'), 'utf8')) as Metrics;

async function select(runDir: string, table: string, what: string, more = ''): Promise<Record<string, unknown>[]> {
  const database = await openDatabase();
  try {
    return (await database.connection.runAndReadAll(`SELECT ${what} FROM ${sqlText(path.join(runDir, `${table}.parquet`))} ${more}`)).getRowObjectsJson();
  } finally {
    database.close();
  }
}

describe('flent in a run', function () {
  this.timeout(300_000);
  before(needsUml);
  before(needsFlent);
  const place = new Place();
  after(() => place.remove());
  const run = async (test: string, out: string, lengthS = 3): Promise<{ readonly code: number | null; readonly stderr: string; readonly folder: string }> => {
    const { code, stderr } = await place.testbed(['run', place.write(`${out}.yaml`, scenario(test, lengthS)), '--machine', 'uml', '--seed', '1', '--no-report', '--out', place.path(out)]);
    return { code, stderr, folder: place.run(place.path(out)) };
  };

  it('measures each stream and ping of rrul, and keeps flent\'s own file', async () => {
    const first = await run('rrul', 'rrul');
    assert.equal(first.code, 0, first.stderr);
    const { folder } = first;
    const { classes, bottlenecks, probes } = metricsOf(folder);
    for (const [name, direction] of [['load.up', 'BL'], ['load.down', 'BL.reverse']] as const) {
      assert.equal(classes[name]!.flows, 4);
      assert.ok(classes[name]!.jain! > 0.9, `${name}: ${classes[name]!.jain}`); // fq_codel is fair, but for slow starts, which are a good part of 3 s
      assert.ok(bottlenecks[direction]!.utilisation! > 0.5);
    }
    assert.deepEqual(Object.keys(probes).sort(), ['load.ping-icmp', 'load.ping-udp-be', 'load.ping-udp-bk', 'load.ping-udp-ef']);

    const flows = await select(folder, 'flows', '*', 'ORDER BY id');
    for (const { status, bytes, cc, t_start: start, t_end: end } of flows) {
      assert.deepEqual([status, cc], ['complete', 'reno']);
      assert.ok(Number(start) >= 1e9 && Number(start) < 1.5e9 && Number(end) > 4e9 && Number(end) < 4.6e9, `${String(start)} to ${String(end)}`);
      assert.ok(Number(bytes) > 300_000);
    }
    // The ports are the plan's: the kernel's own records know each stream, and its packets carry what the receiver got.
    const carried = await select(folder, 'packets', 'flow, sum(size - 52) AS bytes', 'WHERE forward AND NOT dropped AND flow >= 0 GROUP BY flow ORDER BY flow');
    assert.equal(carried.length, 8);
    for (const [i, { bytes }] of carried.entries()) assert.ok(Math.abs(Number(bytes) / Number(flows[i]!['bytes']) - 1) < 0.05, `flow ${i}: ${String(bytes)} through the bottleneck, ${String(flows[i]!['bytes'])} received`);
    assert.equal((await select(folder, 'sockets', 'DISTINCT flow')).length, 8);
    const [{ n, one_way: oneWay, least }] = await select(folder, 'probes', "count(*)::INTEGER AS n, count(owd_forward)::INTEGER AS one_way, min(rtt) AS least", "WHERE probe = 'load.ping-udp-ef'") as [Record<string, number>];
    assert.deepEqual([n, oneWay], [50, 50]);
    assert.ok(Number(least) >= 20e6 && Number(least) < 25e6);

    const kept = JSON.parse(gunzipSync(fs.readFileSync(path.join(folder, 'raw', 'flent-0.flent.gz'))).toString()) as { metadata: { NAME: string }; results: Record<string, unknown> };
    assert.equal(kept.metadata.NAME, 'rrul');
    assert.ok('TCP totals' in kept.results);
  });

  for (const test of ['tcp_2up', 'rrul_be']) it(`is the same bytes twice: ${test}`, async () => {
    const runs = [await run(test, `${test}-once`, 2), await run(test, `${test}-twice`, 2)];
    for (const { code, stderr } of runs) assert.equal(code, 0, stderr);
    assert.ok((await select(runs[0]!.folder, 'flows', 'bytes')).every(({ bytes }) => Number(bytes) > 100_000));
    assert.deepEqual(digests(runs[1]!.folder), digests(runs[0]!.folder));
  });

  it('is failed, with the program\'s own words, when one of the test\'s programs failed; the others count', async () => {
    const { code, folder } = await run('sctp_vs_tcp', 'sctp', 1);
    assert.equal(code, 1);
    const { status, findings } = runJson(folder);
    assert.equal(status, 'failed');
    assert.match(findings.find(({ rule }) => rule === 'flent-failed')!.message, /sctp_vs_tcp .*SCTP upload CS0.*: .*(SCTP|protocol)/i);
    assert.ok((await select(folder, 'flows', 'status')).every(({ status: each }) => each === 'complete'));
  });
});

describe('flent without a program it needs', function () {
  this.timeout(120_000);
  before(needsUml);
  before(function () { if (findProgram('flent') === null) skip(this, 'flent is not installed: apt-get install flent'); });
  const place = new Place();
  after(() => place.remove());

  it('is refused before anything starts, with the program, who asks for it and what to do', async () => {
    const { code, stderr } = await place.testbed(['run', place.write('bursts.yaml', scenario('bursts', 6)), '--machine', 'uml', '--out', place.path('none')]);
    assert.equal(code, 3, stderr);
    assert.match(stderr, /program traffic-gen \(flent bursts of traffic load\)/);
    assert.deepEqual(place.runs('none'), []);
  });
});
