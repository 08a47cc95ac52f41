import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { computeMetrics, type Metrics } from '../analysis/metrics.js';
import { ingest } from '../records/ingest.js';
import { queueFields } from '../records/raw.js';
import { RecordWriter } from '../records/record-file.js';
import { runJson, writeSyntheticRaw } from '../records/synthetic-raw.js';
import { eventually, Place } from '../testing/command.js';
import { ledgerName } from './ledger.js';
import { RunPoints } from './run-points.js';
import { liveTiming, Sender, type SenderTiming, type SenderTotals } from './sender.js';
import { influxSettings, targetOf } from './settings.js';
import { parseLine } from './strict-lines.js';
import { half, type Reply, ScriptedServer, secret, silence, status } from './testing.js';

const stored = status(204);
const quick: SenderTiming = { ...liveTiming, requestMs: 60_000, pauseMs: 10, pollMs: 10, patienceMs: 60_000 };

describe('sending points', () => {
  let place: Place;
  let run: string;
  /** Rows of the record tables that are sent. */
  let points: number;

  before(async () => {
    place = new Place();
    const whole = place.path('whole');
    writeSyntheticRaw(whole, { packets: 3000, flows: 40, shortFlows: 3 });
    fs.writeFileSync(path.join(whole, 'run.json'), JSON.stringify(runJson()));
    const { rows } = await ingest(whole);
    await computeMetrics(whole);
    points = rows.queue + rows.probes + rows.sockets;
    assert.ok(points > 5000, 'more than one batch');
  });
  beforeEach(() => {
    run = fs.mkdtempSync(place.path('run-'));
    fs.cpSync(place.path('whole'), run, { recursive: true });
  });
  after(() => place.remove());

  const settingsFor = (server: ScriptedServer): ReturnType<typeof influxSettings> => influxSettings({ ...server.env }, {});
  function sending(server: ScriptedServer, timing: Partial<SenderTiming> = {}): { readonly sender: Sender; readonly points: RunPoints; readonly warnings: string[] } {
    const settings = settingsFor(server);
    const warnings: string[] = [];
    const sender = new Sender(settings, (message) => { warnings.push(message); }, { ...quick, ...timing });
    const own = new RunPoints(run, { target: targetOf(settings) });
    sender.add(own);
    return { sender, points: own, warnings };
  }
  async function sendAll(server: ScriptedServer, timing: Partial<SenderTiming> = {}): Promise<{ readonly totals: SenderTotals; readonly warnings: readonly string[] }> {
    const { sender, warnings } = sending(server, timing);
    sender.end(run);
    sender.close();
    return { totals: await sender.work(), warnings };
  }
  async function against(replies: readonly Reply[], check: (server: ScriptedServer) => Promise<void>): Promise<void> {
    const server = await ScriptedServer.start(...replies);
    try {
      await check(server);
    } finally {
      await server.close();
    }
  }
  /** Everything is there, once. */
  function assertWhole(server: ScriptedServer, { totals }: { readonly totals: SenderTotals }): void {
    const summary = server.lines.filter((line) => line.startsWith('testbed_summary'));
    assert.ok(summary.length >= 4);
    assert.equal(server.points, points + new Set(summary).size);
    assert.equal(totals.sent, server.points);
    assert.equal(totals.pending, 0);
    assert.equal(totals.trouble, null);
  }

  it('sends every row once, and nothing the second time', () => against([stored], async (server) => {
    const first = await sendAll(server);
    assertWhole(server, first);
    assert.equal(server.lines.length, server.points, 'no line twice');
    assert.deepEqual(first.warnings, []);
    assert.match(server.requests[0]!.url, /^\/api\/v2\/write\?org=org&bucket=lab&precision=ns$/);
    assert.equal(server.requests[0]!.authorization, `Token ${secret}`);
    for (const line of server.lines) parseLine(line); // throws where it is none
    for (const { method, encoding, type, bytes, count } of server.requests) {
      assert.equal(method, 'POST');
      assert.match(type ?? '', /^text\/plain; charset=utf-8$/i);
      if (count > 100) assert.ok(encoding === 'gzip' && bytes < 30 * count, `${count} lines in ${bytes} bytes`);
    }
    const requests = server.requests.length;
    await sendAll(server);
    assert.equal(server.requests.length, requests);
  }));

  it('tags points by run, scenario, bottleneck, class, seed and kernel, at the time on the wall clock', () => against([stored], async (server) => {
    await sendAll(server);
    const start = BigInt(Date.parse('2026-01-01T00:00:00.000Z')) * 1_000_000n;
    const tags = `kernel=6.12.117,machine=uml:6.12`;
    const first = (beginning: string): string => server.lines.find((line) => line.startsWith(beginning)) ?? '';
    assert.match(first('testbed_queue'), new RegExp(`^testbed_queue,bottleneck=BL1,engine=kernel,${tags},queue=\\w+,run=\\S+,scenario=synthetic,seed=1 backlog_bytes=0i,backlog_packets=0i,drops=0i,marks=0i,sent_bytes=0i,sent_packets=0i ${start}$`));
    assert.match(first('testbed_probe'), new RegExp(`^testbed_probe,engine=kernel,${tags},probe=ping,probe_id=0,run=\\S+,scenario=synthetic,seed=1 lost=0i,owd_forward=\\d+i,owd_reverse=50000000i,rtt=\\d+i ${start}$`));
    assert.match(first('testbed_socket'), new RegExp(`^testbed_socket,cc=cubic,class=long,engine=kernel,flow=0,${tags},run=\\S+,scenario=synthetic,seed=1 bytes_acked=0i,cwnd=20i,.*srtt=\\d+i,ssthresh=40i,state=0i ${start}$`));
    const { windowS } = JSON.parse(fs.readFileSync(path.join(run, 'metrics.json'), 'utf8')) as Metrics;
    assert.match(server.lines.filter((line) => line.startsWith('testbed_summary')).find((line) => line.includes('bottleneck=BL1,engine')) ?? '', new RegExp(`status=complete \\S*queueDelayMs_p50=[\\d.]+\\S* ${start + BigInt(Math.round(windowS[1] * 1e9))}$`));
    const lost = server.lines.filter((line) => line.includes(' lost=1i '));
    assert.ok(lost.length > 0, 'lost probes have no delays, but are there');
  }));

  for (const [what, replies, warns] of [
    ['answers 500', [status(500, { 'content-type': 'application/json' }, '{"code":"internal error","message":"out of it"}'), stored], /answered 500: out of it/],
    ['answers 503 without a word', [status(503), status(503), stored], /answered 503/],
    ['is silent', [silence, stored], /no whole answer within 0\.3 s/],
    ['answers half an error', [half(500), half(503), stored], /./],
    ['says it stored everything, and breaks off', [half(204), half(200), half(200), stored], /./],
    ['ends the connection', [(response): void => { response.destroy(); }, (response): void => { response.destroy(); }, stored], /socket hang up|ECONNRESET/],
  ] as const satisfies readonly (readonly [string, readonly Reply[], RegExp])[]) {
    it(`sends everything to a server that first ${what}, and warns once`, () => against(replies, async (server) => {
      const sent = await sendAll(server, replies[0] === silence ? { requestMs: 300 } : {});
      assertWhole(server, sent);
      // A 204 has no body to break off in: the first of these answers is whole.
      assert.ok(sent.warnings.length <= 1);
      assert.match(sent.warnings.join(), warns);
    }));
  }

  it('waits as long as a 429 asks with Retry-After', () => against([status(429, { 'retry-after': '1' }, 'slowly'), stored], async (server) => {
    const sent = await sendAll(server);
    assertWhole(server, sent);
    assert.deepEqual(sent.warnings, [`${server.url} bucket lab of org: answered 429: slowly`]);
    assert.ok(server.requests[1]!.atMs - server.requests[0]!.atMs >= 990);
  }));

  it('keeps everything when the server asks for more time than there is', () => against([status(429, { 'retry-after': new Date(Date.now() + 3600e3).toUTCString() }), stored], async (server) => {
    const { totals, warnings } = await sendAll(server, { patienceMs: 200 });
    assert.equal(server.requests.length, 1);
    assert.equal(totals.sent, 0);
    assert.deepEqual(totals.left, [run]);
    assert.equal(warnings.length, 1);
    assertWhole(server, await sendAll(server));
  }));

  it('does not ask twice with a token that is refused, says so once and without it, and sends later what is kept', () =>
    against([status(401, { 'content-type': 'application/json' }, JSON.stringify({ code: 'unauthorized', message: `unauthorized: ${secret}` })), stored], async (server) => {
      const { totals, warnings } = await sendAll(server);
      assert.equal(server.requests.length, 1);
      assert.equal(totals.sent, 0);
      assert.ok(totals.pending > points);
      assert.deepEqual(warnings, [`${server.url} bucket lab of org: answered 401: unauthorized: [token]; is INFLUX_TOKEN one that may write to this bucket?`]);
      assert.ok(!fs.readFileSync(path.join(run, ledgerName), 'utf8').includes(secret));
      assertWhole(server, await sendAll(server));
    }));

  // As InfluxDB's API documents its errors: 2.x by code and message, 3.x by error and what is wrong in each line.
  for (const [code, body, message] of [
    [400, { code: 'invalid', message: 'partial write: field type conflict: input field "drops" on measurement "testbed_queue" is type integer, already exists as type float dropped=1' }, /answered 400: partial write: field type conflict.*; a bucket of its own/],
    [400, { error: 'partial write of line protocol occurred', data: [{ error_message: 'invalid column type', line_number: 1, original_line: 'x' }] }, /answered 400: partial write of line protocol occurred; a bucket of its own/],
    [404, { code: 'not found', message: 'bucket "lab" not found' }, /answered 404: bucket "lab" not found; does the bucket \(INFLUX_BUCKET\) exist/],
    [401, { code: 'unauthorized', message: 'unauthorized access' }, /answered 401: unauthorized access; is INFLUX_TOKEN one/],
    [403, { code: 'forbidden', message: 'insufficient permissions for write' }, /answered 403: insufficient permissions for write; is INFLUX_TOKEN one/],
    [422, { code: 'unprocessable entity', message: 'points beyond retention policy' }, /answered 422: points beyond retention policy/],
  ] as const) {
    it(`says what a server that answers ${code} means, asks no more, and keeps the points: ${Object.values(body)[0] as string}`, () => against([status(code, { 'content-type': 'application/json; charset=utf-8' }, JSON.stringify(body)), stored], async (server) => {
      const { totals, warnings } = await sendAll(server);
      assert.deepEqual([totals.sent, server.requests.length, warnings.length], [0, 1, 1]);
      assert.match(warnings[0]!, message);
      assertWhole(server, await sendAll(server));
    }));
  }

  it('leaves a slow server after its time, with one warning, and keeps the rest', () => {
    const slow: Reply = (response) => { setTimeout(() => { response.writeHead(204).end(); }, 100); };
    return against([slow], async (server) => {
      const { totals, warnings } = await sendAll(server, { closeMs: 50, briskPerSecond: Infinity });
      assert.ok(totals.sent > 0 && totals.pending > 0, JSON.stringify(totals));
      assert.deepEqual(warnings, [`${server.url} bucket lab of org: too slow to take everything in time`]);
      assertWhole(server, await sendAll(server, { closeMs: 50, briskPerSecond: 10 }));
      assert.equal(server.lines.length, server.points, 'no line twice');
    });
  });

  it('sends less at once to a server that takes no more', () => {
    const small: Reply = (response, body) => { response.writeHead(body.split('\n').length > 700 ? 413 : 204).end(); };
    return against([small], async (server) => {
      const sent = await sendAll(server);
      assertWhole(server, sent);
      assert.deepEqual(sent.warnings, []);
      assert.ok(server.requests.at(-1)!.count <= 700);
    });
  });

  it('writes to a server before 2.0 with name and password', () => {
    const old: Reply = (response) => { response.writeHead(response.req.url!.startsWith('/write?db=lab&precision=ns') ? 204 : 404).end('404 page not found\n'); };
    return against([old], async (server) => {
      const settings = { ...settingsFor(server), token: 'user:password' };
      const sender = new Sender(settings, assert.fail, quick);
      const own = new RunPoints(run, { target: targetOf(settings) });
      own.ended = true;
      sender.add(own);
      sender.close();
      assertWhole(server, { totals: await sender.work() });
      assert.equal(server.requests.at(-1)!.authorization, `Basic ${Buffer.from('user:password').toString('base64')}`);
    });
  });

  it('sends again what was acknowledged shortly before a connection ended, since a killed server may have lost it', () => {
    // The first acknowledges and is gone, as one that is killed before it wrote to its disk.
    const gone: Reply = (response) => { const { socket } = response.req; response.writeHead(204).end(() => { setTimeout(() => { socket.destroy(); }, 20); }); };
    return against([gone, stored], async (server) => {
      const sent = await sendAll(server);
      assertWhole(server, sent);
      assert.deepEqual(sent.warnings, []);
      const [first] = server.lines;
      assert.equal(server.lines.filter((line) => line === first).length, 2);
    });
  });

  it('follows files that grow, takes no half row, and ends with all of them', () => against([stored], async (server) => {
    fs.rmSync(path.join(run, 'influx.json'), { force: true });
    const raw = path.join(run, 'raw');
    for (const name of ['probes.rec', 'sockets.rec', 'queue-BL1.rec', 'agent.jsonl']) fs.rmSync(path.join(raw, name));
    fs.rmSync(path.join(run, 'metrics.json'));
    fs.writeFileSync(path.join(run, 'run.json'), JSON.stringify(runJson({ status: 'running', kernel: null })));
    const file = path.join(raw, 'queue-BL1.rec');
    const writer = new RecordWriter(file, 'queue', { bottleneck: 'BL1' }, queueFields);
    const { sender } = sending(server);
    const work = sender.work();
    const row = (k: number): void => { writer.row(k * 1e7, k, 0, 0, 0, 0, NaN); };
    row(0);
    writer.flush();
    await new Promise((resolve) => { setTimeout(resolve, 50); });
    assert.equal(server.requests.length, 0, 'nothing before the kernel is known');
    fs.writeFileSync(path.join(raw, 'agent.jsonl'), `${JSON.stringify({ type: 'facts', kernel: '6.99' })}\n`);
    await eventually('one point', () => server.points === 1);
    row(1);
    writer.flush();
    fs.appendFileSync(file, Buffer.alloc(20)); // a row under way
    await eventually('two points', () => server.points === 2);
    await new Promise((resolve) => { setTimeout(resolve, 50); });
    assert.equal(server.points, 2);
    fs.truncateSync(file, fs.statSync(file).size - 20);
    // The writer knows its own place.
    fs.appendFileSync(file, fs.readFileSync(file).subarray(-56));
    sender.end(run);
    sender.close();
    const totals = await work;
    assert.equal(totals.sent, 3);
    assert.ok(server.lines.every((line) => line.includes('kernel=6.99')));
    writer.close();
  }));

  it('goes on with the other runs of a set when one has no records', () => against([stored], async (server) => {
    const { sender } = sending(server);
    sender.end(run);
    const empty = place.path('empty');
    fs.mkdirSync(empty, { recursive: true });
    sender.add(new RunPoints(empty, { target: 'x' }));
    sender.end(empty);
    sender.close();
    assertWhole(server, { totals: await sender.work() });
  }));
});
