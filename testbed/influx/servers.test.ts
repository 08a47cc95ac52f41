/** Against the real servers: what they give back is compared with the run's record tables, value by value. */

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { projectFile } from '../../kernel/project.js';
import { mayUseNamespaces } from '../machines/local.js';
import { openDatabase, sqlPath } from '../records/database.js';
import { headerBytes, readRecordHeader } from '../records/record-file.js';
import { readMetricRows } from '../store/metric-rows.js';
import { assertWentThrough, eventually, needsUml, Place, runJson, skip, type Ended } from '../testing/command.js';
import { dumbbellText } from '../testing/scenarios.js';
import { ledgerName } from './ledger.js';
import { type Kind, programOf, RealServer, ScriptedServer, secret, status } from './testing.js';

interface Dashboard {
  readonly panels: readonly { readonly title: string; readonly targets: readonly { readonly expr?: string; readonly query?: string }[] }[];
  readonly templating: { readonly list: readonly { readonly type: string; readonly definition?: string }[] };
}

const scenario = dumbbellText({ pairs: 2, probes: '{ p: { from: S, to: D, interval: 10ms } }' });

async function rows<Row>(sql: string): Promise<Row[]> {
  const database = await openDatabase();
  try {
    return await database.rows<Row>(sql);
  } finally {
    database.close();
  }
}

/** Every sample of every table that is sent is on the server with its value and time, and nothing else is. */
async function assertAllThere(server: RealServer, runDir: string): Promise<void> {
  const run = path.basename(runDir);
  const startNs = BigInt(Date.parse(runJson(runDir).started)) * 1_000_000n;
  const at = (t: number): string => String(server.kind === 'influxd' ? startNs + BigInt(t) : (startNs + BigInt(t)) / 1_000_000n);
  const expect = async (measurement: string, field: string, tags: Readonly<Record<string, string>>, sql: string): Promise<number> => {
    const wanted = (await rows<{ t: number; value: number | null }>(sql)).filter(({ value }) => value !== null);
    const found = await server.values(measurement, field, { run, ...tags });
    assert.equal(found.size, wanted.length, `${measurement}.${field}: points`);
    for (const { t, value } of wanted) assert.equal(found.get(at(t)), value, `${measurement}.${field} at ${t} ns`);
    return wanted.length;
  };
  const table = (name: string): string => `read_parquet(${sqlPath(path.join(runDir, `${name}.parquet`))})`;
  const number = (column: string, of: string, where: string): string => `SELECT CAST(t AS DOUBLE) AS t, CAST(${column} AS DOUBLE) AS value FROM ${table(of)} WHERE ${where}`;
  const { counts } = runJson(runDir);
  let queue = 0;
  for (const { bottleneck } of await rows<{ bottleneck: string }>(`SELECT DISTINCT bottleneck FROM ${table('queue')}`)) {
    for (const column of ['backlog_packets', 'drops']) await expect('testbed_queue', column, { bottleneck }, number(column, 'queue', `bottleneck = '${bottleneck}'`));
    queue += await expect('testbed_queue', 'sent_bytes', { bottleneck }, number('sent_bytes', 'queue', `bottleneck = '${bottleneck}'`));
  }
  assert.equal(queue, counts['queue']);
  let sockets = 0;
  for (const { flow } of await rows<{ flow: number }>(`SELECT DISTINCT CAST(flow AS DOUBLE) AS flow FROM ${table('sockets')}`)) {
    sockets += await expect('testbed_socket', 'cwnd', { flow: String(flow), class: 'bulk' }, number('cwnd', 'sockets', `flow = ${flow}`));
    await expect('testbed_socket', 'srtt', { flow: String(flow) }, number('srtt', 'sockets', `flow = ${flow}`));
  }
  assert.equal(sockets, counts['sockets']);
  let probes = 0;
  for (const { id } of await rows<{ id: number }>(`SELECT DISTINCT CAST(probe_id AS DOUBLE) AS id FROM ${table('probes')}`)) {
    await expect('testbed_probe', 'rtt', { probe: 'p', probe_id: String(id) }, number('rtt', 'probes', `probe_id = ${id}`));
    probes += await expect('testbed_probe', 'lost', { probe_id: String(id) }, number('CAST(lost AS INTEGER)', 'probes', `probe_id = ${id}`));
  }
  assert.equal(probes, counts['probes']);
  const figures = readMetricRows(runDir);
  assert.ok(typeof figures !== 'string');
  const wanted = figures.find(({ metric }) => metric === 'bottlenecks.BL.queueDelayMs.p50') ?? figures.find(({ metric }) => metric === 'classes.bulk.goodputBps')!;
  const [value, ...others] = [...(await server.values('testbed_summary', wanted.statistic === null ? wanted.figure : `${wanted.figure}_${wanted.statistic}`,
    { run, status: runJson(runDir).status, ...(wanted.part === 'classes' ? { class: wanted.name } : { bottleneck: wanted.name, class: '' }) })).values()];
  assert.deepEqual(others, []);
  assert.ok(Math.abs(value! - wanted.value!) <= 1e-9 * Math.abs(wanted.value!), `${wanted.metric}: ${value} for ${wanted.value}`);
}

/** Nothing a user could send on holds the token: files of the place, and what was printed. */
function assertNoToken(place: Place, ...ended: readonly Ended[]): void {
  for (const { stdout, stderr } of ended) assert.ok(!(stdout + stderr).includes(secret));
  const found = fs.readdirSync(place.folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name)).filter((file) => fs.readFileSync(file).includes(secret) || fs.readFileSync(file).includes(Buffer.from(secret).toString('base64')));
  assert.deepEqual(found, []);
}
const warnings = ({ stderr }: Ended): string[] => stderr.split('\n').filter((line) => /warning influx|influx.*warning/.test(line));

for (const kind of ['victoria-metrics', 'influxd'] as const satisfies readonly Kind[]) {
  describe(`points on ${kind}`, function () {
    this.timeout(180_000);
    let place: Place;
    /** The server's files come and go: not where ours are looked for. */
    let itsPlace: Place;
    let server: RealServer;
    before(async function () {
      if (programOf(kind) === null) skip(this, `${kind} is not installed (apt-get install --no-install-recommends ${kind === 'influxd' ? 'influxdb' : kind})`);
      place = new Place();
      itsPlace = new Place();
      server = await RealServer.start(kind, itsPlace.path(kind));
    });
    afterEach(() => { fs.rmSync(place.path('results'), { recursive: true, force: true }); });
    after(async () => {
      await server?.kill();
      place?.remove();
      itsPlace?.remove();
    });

    it('of a simulated run are there when it ends, each with its value', async () => {
      const ended = await place.testbed(['sim', place.write('a.yaml', scenario), '--influx', '--no-report'], { env: server.env });
      assert.equal(ended.code, 0, ended.stderr);
      assert.deepEqual(warnings(ended), []);
      await assertAllThere(server, place.run());
      assertNoToken(place, ended);
      const { panels, templating } = JSON.parse(fs.readFileSync(projectFile('docs', 'grafana', `${kind === 'influxd' ? 'influxdb' : kind}.json`), 'utf8')) as Dashboard;
      const run = path.basename(place.run());
      const filled = (query: string): string => [['$run', run], ['$class', '.*'], ['$__interval', '200ms'], ['$__rate_interval', '400ms'], ['$__range', '600s']].reduce((text, [name, value]) => text.replaceAll(name!, value!), query);
      assert.ok(panels.length > 5);
      for (const { title, targets } of panels) for (const { expr, query } of targets) assert.ok(await server.series(filled(expr ?? query!)) > 0, `panel "${title}" of the dashboard shows the run`);
      for (const { type, definition } of templating.list) {
        if (type !== 'query') continue;
        // label_values is Grafana's own: the series it takes the label from must be there.
        assert.ok(await server.series(filled(/^label_values\((.*), \w+\)$/.exec(definition!)?.[1] ?? definition!)) > 0, definition);
      }
    });

    it("of a run on a kernel in virtual time are there too, with the kernel's release", async function () {
      needsUml.call(this);
      const ended = await place.testbed(['run', place.write('a.yaml', scenario), '--machine', 'uml', '--influx', '--no-report'], { env: server.env });
      assert.equal(ended.code, 0, ended.stderr);
      await assertAllThere(server, place.run());
      const found = await server.values('testbed_queue', 'drops', { run: path.basename(place.run()), kernel: runJson(place.run()).kernel!.release!, engine: 'kernel', seed: '1', scenario: 'short' });
      assert.equal(found.size, runJson(place.run()).counts['queue']);
      assertNoToken(place, ended);
    });

    it('that no server took are sent later by export, once', async () => {
      await server.kill();
      const ended = await place.testbed(['sim', place.write('a.yaml', scenario), '--influx', '--no-report'], { env: server.env });
      assert.equal(ended.code, 0, ended.stderr);
      assert.equal(runJson(place.run()).status, 'complete');
      assert.equal(warnings(ended).length, 1, ended.stderr);
      assert.match(ended.stderr, /ECONNREFUSED.*testbed export RUN --format influx/);
      assert.ok(fs.existsSync(path.join(place.run(), ledgerName)));
      const refused = await place.testbed(['export', 'last', '--format', 'influx'], { env: { ...server.env, INFLUX_URL: '' } });
      assert.equal(refused.code, 2, refused.stderr);
      await server.start();
      const sent = await place.testbed(['export', 'last', '--format', 'influx'], { env: server.env });
      assert.equal(sent.code, 0, sent.stderr);
      const { counts } = runJson(place.run());
      const summary = new Set((readMetricRows(place.run()) as readonly { part: string; name: string; class: string | null; value: number | null }[]).filter(({ value }) => value !== null).map((row) => `${row.part} ${row.name} ${row.class}`)).size;
      assert.match(sent.stderr, new RegExp(`: ${counts['queue']! + counts['sockets']! + counts['probes']! + summary} points sent to ${server.url} bucket lab of org$`, 'm'));
      await assertAllThere(server, place.run());
      const again = await place.testbed(['export', 'last', '--format', 'influx'], { env: server.env });
      assert.match(again.stderr, /: 0 points sent/);
      // Also without its knowledge of what is there: the same points.
      fs.rmSync(path.join(place.run(), ledgerName));
      const anew = await place.testbed(['export', 'last', '--format', 'influx'], { env: server.env });
      assert.doesNotMatch(anew.stderr, /: 0 points sent/);
      await assertAllThere(server, place.run());
      assertNoToken(place, ended, refused, sent, again, anew);
    });

    it('stream while a run in real time goes on, and none is lost when the server is killed in the middle', async function () {
      const local = mayUseNamespaces();
      if (!local) needsUml.call(this);
      // A guest's files are settled some seconds later than the host's own.
      const text = dumbbellText({ rate: '10mbit', queue: 'pfifo', rtt: '', pairs: 2, probes: '{ p: { from: S, to: D, interval: 20ms } }', measure: `{ warmup: 500ms, duration: ${local ? 5 : 10}s }` });
      const started = place.start(['run', place.write('a.yaml', text), '--clock', 'real', '--machine', local ? 'local' : 'uml', '--influx', '--no-report', '--no-packets'], { env: server.env });
      const acknowledged = (): number => {
        const [run] = place.runs();
        const file = run === undefined ? '' : path.join(run, ledgerName);
        if (!fs.existsSync(file)) return 0;
        return Object.values((JSON.parse(fs.readFileSync(file, 'utf8')) as { acknowledged: Record<string, Record<string, number>> }).acknowledged).flatMap((each) => Object.values(each)).reduce((sum, each) => sum + each, 0);
      };
      await eventually('points stream', () => acknowledged() > 50 || started.child.exitCode !== null);
      assert.equal(runJson(place.run()).status, 'running', started.output());
      await server.kill();
      await new Promise((resolve) => { setTimeout(resolve, 1500); });
      await server.start();
      const ended = await started.ended;
      assertWentThrough(place.run(), ended);
      assert.ok(warnings(ended).length <= 1, ended.stderr);
      assert.match(ended.stderr, /influx: \d+ points sent to \S+ bucket lab of org$/m);
      await assertAllThere(server, place.run());
      assertNoToken(place, ended);
      await place.assertNothingLeft();
    });
  });
}

describe('testbed run --influx', function () {
  this.timeout(180_000);
  let place: Place;
  beforeEach(() => { place = new Place(); });
  afterEach(() => { place.remove(); });

  it('is refused before anything starts when it is not known where to', async () => {
    const ended = await place.testbed(['sim', place.write('a.yaml', scenario), '--influx']);
    assert.equal(ended.code, 2);
    assert.match(ended.stderr, /no InfluxDB to send to: set INFLUX_URL/);
    assert.deepEqual(place.runs(), []);
  });

  it('takes the server from testbed.config.yaml', async () => {
    const server = await ScriptedServer.start(status(204));
    try {
      place.write('testbed.config.yaml', `influx: { url: "${server.url}", bucket: shelf, token: ${JSON.stringify(secret)} }\n`);
      const ended = await place.testbed(['sim', place.write('a.yaml', scenario), '--influx', '--no-report']);
      assert.equal(ended.code, 0, ended.stderr);
      assert.match(server.requests[0]!.url, /bucket=shelf/);
      assert.equal(server.requests[0]!.authorization, `Token ${secret}`);
      fs.rmSync(place.path('testbed.config.yaml'));
      assertNoToken(place, ended);
    } finally {
      await server.close();
    }
  });

  it('tells the runs of a set apart by run and by what varies, and counts what a server refused', async () => {
    const server = await ScriptedServer.start(status(401), status(204));
    try {
      const text = dumbbellText({ more: 'vary: { topology.links.BL.queue: [pfifo, codel] }\nseeds: [3, 4]' });
      const ended = await place.testbed(['sim', place.write('a.yaml', text), '--influx', '--no-report'], { env: server.env });
      assert.equal(ended.code, 0, ended.stderr);
      assert.equal(server.requests.length, 1);
      assert.equal(warnings(ended).length, 1, ended.stderr);
      assert.match(ended.stderr, /influx: 0 points sent to .*, \d+ left in 4 run folders$/m);
      const set = place.run();
      const exported = await place.testbed(['export', 'last', '--format', 'influx'], { env: server.env });
      assert.equal(exported.code, 0, exported.stderr);
      for (const [name, queue, seed] of [['queue-pfifo-seed3', 'pfifo', 3], ['queue-codel-seed4', 'codel', 4]] as const) {
        const lines = server.lines.filter((line) => line.startsWith('testbed_queue') && line.includes(`,run=${path.basename(set)}/${name},`));
        assert.equal(new Set(lines).size, runJson(path.join(set, name)).counts['queue']);
        assert.ok(lines.every((line) => line.includes(`,seed=${seed},vary_topology_links_BL_queue=${queue} `)), lines[0]);
      }
      assertNoToken(place, ended, exported);
    } finally {
      await server.close();
    }
  });

  it('leaves what was not sent when it is killed, for export to go on with', async function () {
    if (!mayUseNamespaces()) skip(this, 'network namespaces need root');
    const server = await ScriptedServer.start(status(204));
    try {
      const text = dumbbellText({ rate: '10mbit', queue: 'pfifo', rtt: '', measure: '{ warmup: 500ms, duration: 60s }' });
      const started = place.start(['run', place.write('a.yaml', text), '--clock', 'real', '--machine', 'local', '--influx'], { env: server.env });
      await eventually('points stream', () => server.points > 0 || started.child.exitCode !== null);
      started.child.kill('SIGKILL');
      await started.ended;
      await eventually('its processes are gone', () => place.processes().length === 0);
      const sent = await place.testbed(['export', 'last', '--format', 'influx'], { env: server.env });
      assert.equal(sent.code, 0, sent.stderr);
      const rows = (name: string): number => { const file = path.join(place.run(), 'raw', name); return Math.floor((fs.statSync(file).size - headerBytes) / readRecordHeader(file).rowBytes); };
      assert.equal(new Set(server.lines.filter((line) => line.startsWith('testbed_queue'))).size, rows('queue-BL.rec'));
      assert.equal(new Set(server.lines.filter((line) => line.startsWith('testbed_socket'))).size, rows('sockets.rec'));
    } finally {
      await server.close();
    }
  });

  for (const machine of ['uml', 'local'] as const) it(`shows the token to no other process, log or file, also when the server repeats it, on ${machine}`, async function () {
    if (machine === 'uml') needsUml.call(this);
    else if (!mayUseNamespaces()) skip(this, 'network namespaces need root');
    const text = machine === 'uml' ? scenario : dumbbellText({ rate: '10mbit', queue: 'pfifo', rtt: '' });
    const server = await ScriptedServer.start(status(401, { 'content-type': 'application/json' }, JSON.stringify({ code: 'unauthorized', message: `no such token: ${secret}` })));
    const shown = new Set<string>();
    let others = 0;
    try {
      const started = place.start(['run', place.write('a.yaml', text), '--machine', machine, '--influx'], { env: server.env });
      const own = started.child.spawnargs.join(' ');
      const watching = setInterval(() => {
        for (const { pid, command } of place.processes()) {
          if (command.includes(secret)) shown.add(command);
          if (pid === started.child.pid || command === own) continue; // a child is its parent's image until it starts its program
          others++;
          try {
            if (fs.readFileSync(`/proc/${pid}/environ`, 'utf8').includes(secret)) shown.add(`environment of ${command}`);
          } catch {
            // it has ended
          }
        }
      }, 20);
      const ended = await started.ended;
      clearInterval(watching);
      assertWentThrough(place.run(), ended);
      assert.ok(others > 0, 'its other processes were seen');
      assert.deepEqual([...shown], []);
      assert.equal(warnings(ended).length, 1, ended.stderr);
      assert.match(ended.stderr, /answered 401: no such token: \[token\]/);
      const later = await place.testbed(['export', 'last', '--format', 'influx'], { env: server.env });
      assert.equal(later.code, 1);
      assert.match(later.stderr, /\d+ points are not sent\..*answered 401: no such token: \[token\]/);
      assertNoToken(place, ended, later);
    } finally {
      await server.close();
    }
  });
});
