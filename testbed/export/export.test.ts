import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import * as zlib from 'node:zlib';
import { computeMetrics } from '../analysis/metrics.js';
import { readPlan } from '../records/ingest.js';
import { ingest } from '../records/ingest.js';
import { openDatabase, sqlPath } from '../records/database.js';
import { runJson, writeSyntheticRaw } from '../records/synthetic-raw.js';
import type { Plan } from '../plan/plan.js';
import { Place, program, skip } from '../testing/command.js';
import { peakAtExit, writeSyntheticPacketRun } from '../testing/synthetic-runs.js';
import { exportFormats } from './registry.js';
import { ipv6Bytes } from './pcapng.js';
import { inTimeOrder, spread } from './time-order.js';

interface PacketRow { bottleneck: string; seq: number; flow: number; size: number; t_enqueue: number; t_dequeue: number | null; dropped: boolean; marked: boolean }

describe('testbed export', () => {
  let place: Place;
  let run: string;
  let plan: Plan;
  let packets: PacketRow[];

  before(async () => {
    place = new Place();
    run = place.path('results/runs/synthetic-20260101-aaaaaa');
    writeSyntheticRaw(run, { packets: 4000, load: 1.1, limitPackets: 60, markEvery: 50, shortFlows: 5 });
    fs.writeFileSync(path.join(run, 'run.json'), JSON.stringify(runJson()));
    await ingest(run);
    await computeMetrics(run);
    plan = readPlan(run);
    packets = await rowsOf<PacketRow>(path.join(run, 'packets.parquet'));
    assert.ok(packets.some(({ dropped }) => dropped) && packets.some(({ marked }) => marked), 'the run has drops and marks');
  });
  after(() => place.remove());

  async function rowsOf<Row>(file: string, suffix = ''): Promise<Row[]> {
    const database = await openDatabase();
    try {
      return await database.rows<Row>(`SELECT * FROM ${file.endsWith('.json') ? 'read_json' : file.endsWith('.csv') ? 'read_csv' : 'read_parquet'}(${sqlPath(file)}) ${suffix}`);
    } finally {
      database.close();
    }
  }
  const exported = async (args: readonly string[]): Promise<string> => {
    const { code, stdout, stderr } = await place.testbed(['export', 'aaaaaa', ...args]);
    assert.equal(code, 0, stderr);
    assert.doesNotMatch(stderr, /Warning/);
    return stdout;
  };

  it('writes CSV, JSON and Parquet that say the same as the records, each table a file', async () => {
    for (const format of ['csv', 'json', 'parquet']) {
      const stdout = await exported(['--format', format, '--out', `${format}/`]);
      assert.deepEqual(stdout.trim().split('\n').map((line) => path.basename(line)), ['flows', 'queue', 'packets', 'probes', 'sockets', 'metrics'].map((table) => `${table}.${format}`));
      for (const table of ['flows', 'queue', 'packets', 'probes', 'sockets']) {
        const [original, copy] = [await rowsOf<Record<string, unknown>>(path.join(run, `${table}.parquet`)), await rowsOf<Record<string, unknown>>(place.path(format, `${table}.${format}`))];
        assert.deepEqual(copy, original, `${table} as ${format}`);
      }
      const metrics = await rowsOf<{ metric: string; value: number | null }>(place.path(format, `metrics.${format}`));
      const figures = JSON.parse(fs.readFileSync(path.join(run, 'metrics.json'), 'utf8')) as { bottlenecks: Record<string, { queueDelayMs: { p99: number } }> };
      assert.equal(metrics.find(({ metric }) => metric === 'bottlenecks.BL1.queueDelayMs.p99')!.value, figures.bottlenecks['BL1']!.queueDelayMs.p99);
    }
  });

  it('writes one table to standard output, and stops when its reader does', async () => {
    const stdout = await exported(['--format', 'csv', '--table', 'packets', '--out', '-']);
    assert.equal(stdout.trim().split('\n').length, packets.length + 1);
    const child = spawn('sh', ['-c', `"$0" "$1" export aaaaaa --format json --table packets --out - | head -n 2`, process.execPath, program], { cwd: place.folder, stdio: ['ignore', 'pipe', 'pipe'] });
    let text = '';
    let errors = '';
    child.stdout.on('data', (data: Buffer) => { text += data.toString(); });
    child.stderr.on('data', (data: Buffer) => { errors += data.toString(); });
    await new Promise((resolve) => { child.on('close', resolve); });
    assert.match(text, /^\[\n\{"bottleneck":"BL1","seq":0/);
    assert.equal(errors, '');
  });

  it('writes a pcapng that Wireshark reads, with each packet at its time, from its addresses, with its time in the queue', async function () {
    if (spawnSync('tshark', ['--version'], { stdio: 'ignore' }).status !== 0) skip(this, 'tshark is not installed');
    await exported(['--format', 'pcapng', '--out', 'x.pcapng']);
    const fields = ['frame.time_epoch', 'frame.interface_name', 'frame.len', 'ip.src', 'ip.dst', 'tcp.srcport', 'tcp.dstport', 'ip.dsfield.ecn', 'frame.comment', 'ip.checksum.status', 'tcp.len'];
    const text = execFileSync('tshark', ['-r', place.path('x.pcapng'), '-o', 'ip.check_checksum:TRUE', '-T', 'fields', ...fields.flatMap((field) => ['-e', field])], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'], maxBuffer: 1 << 28 });
    const seen = text.trim().split('\n').map((line) => line.split('\t'));
    assert.equal(seen.length, packets.length);
    const at = (ns: number): string => `${Math.floor(ns / 1e9)}.${String(ns % 1e9).padStart(9, '0')}`;
    const expected = packets.map((packet) => ({ packet, t: packet.t_dequeue ?? packet.t_enqueue })).sort((a, b) => a.t - b.t);
    expected.forEach(({ packet, t }, i) => {
      const [time, where, length, src, dst, srcPort, dstPort, ecn, comment, checksum, payload] = seen[i]!;
      const flow = plan.flows[packet.flow]!;
      assert.deepEqual([time, where, length, src, dst, srcPort, dstPort, checksum, payload],
        [at(t), packet.dropped ? 'BL1 (dropped)' : 'BL1', String(packet.size), flow.srcAddress, flow.dstAddress, String(flow.srcPort), String(flow.dstPort), '1', '1448'], JSON.stringify(packet));
      assert.equal(Number(ecn), packet.marked ? 3 : 2);
      assert.ok(comment!.startsWith(packet.dropped ? `dropped by pfifo; flow ${packet.flow} (long)` : `sojourn ${((packet.t_dequeue! - packet.t_enqueue) / 1e6).toFixed(6)} ms${packet.marked ? ', CE marked here' : ''}; flow ${packet.flow} (long)`), comment);
    });
    const faulty = execFileSync('tshark', ['-r', place.path('x.pcapng'), '-Y', '_ws.malformed'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
    assert.equal(faulty, '');
  });

  it('writes headers of IPv6, UDP, ICMP, ACKs and packets of no flow that Wireshark reads', async function () {
    if (spawnSync('tshark', ['--version'], { stdio: 'ignore' }).status !== 0) skip(this, 'tshark is not installed');
    const other = place.path('results/runs/other-20260101-bbbbbb');
    fs.mkdirSync(path.join(other, 'raw'), { recursive: true });
    fs.writeFileSync(path.join(other, 'run.json'), JSON.stringify(runJson()));
    const [tcp, six, udp] = [plan.flows[0]!, plan.flows[1]!, plan.flows[2]!];
    fs.writeFileSync(path.join(other, 'raw', 'plan.json'), JSON.stringify({
      ...plan, flows: [tcp, { ...six, srcAddress: 'fd00:1::2', dstAddress: 'fd00:2::3' }, { ...udp, transport: 'udp' }],
      probes: [plan.probes[0], { ...plan.probes[0], id: 1, name: 'echo', tool: 'ping' }],
    } satisfies unknown));
    const database = await openDatabase();
    const row = (bottleneck: string, seq: number, flow: number | null, forward: boolean, size: number, t: number, dropped = false): string =>
      `('${bottleneck}', ${seq}, ${flow ?? 'NULL'}, ${forward}, ${size}, ${t}, ${dropped ? 'NULL' : t + 1000}, ${dropped}, false, 1)`;
    await database.run(`COPY (SELECT * FROM (VALUES ${[
      row('BL1', 0, 0, true, 60, 1000), row('BL1', 1, 0, true, 1500, 5000), row('BL1', 2, 0, true, 1500, 6000, true), row('BL1', 3, 1, true, 1520, 7000), row('BL1', 4, 2, true, 200, 8000),
      row('BL1', 5, -1, true, 100, 9000), row('BL1', 6, -2, true, 84, 10000), row('BL1', 7, null, true, 46, 11000),
      row('BL1.reverse', 0, 0, false, 60, 3000), row('BL1.reverse', 1, 0, false, 52, 12000), row('BL1.reverse', 2, -2, false, 84, 13000),
    ].join(', ')}) t(bottleneck, seq, flow, forward, size, t_enqueue, t_dequeue, dropped, marked, ecn)) TO '${path.join(other, 'packets.parquet')}' (FORMAT parquet)`);
    database.close();
    const { code, stderr } = await place.testbed(['export', 'bbbbbb', '--format', 'pcapng', '--out', 'y.pcapng']);
    assert.equal(code, 0, stderr);
    const fields = ['_ws.col.Protocol', 'ip.src', 'ipv6.src', 'tcp.flags', 'tcp.seq_raw', 'tcp.ack_raw', 'tcp.len', 'udp.length', 'icmp.type', 'ip.proto', 'ipv6.tclass.ecn'];
    const text = execFileSync('tshark', ['-r', place.path('y.pcapng'), '-T', 'fields', ...fields.flatMap((field) => ['-e', field])], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
    assert.deepEqual(text.replace(/\n$/, '').split('\n').map((line) => line.split('\t').slice(1)), [
      ['10.0.1.10', '', '0x0002', '0', '0', '0', '', '', '6', ''], // SYN
      ['10.0.2.10', '', '0x0012', '0', '1', '0', '', '', '6', ''], // SYN, ACK
      ['10.0.1.10', '', '0x0010', '1', '1', '1448', '', '', '6', ''],
      ['10.0.1.10', '', '0x0010', '1449', '1', '1448', '', '', '6', ''], // dropped: arrives at 6 µs, as the one before leaves
      ['', 'fd00:1::2', '0x0010', '1', '1', '1448', '', '', '', '1'],
      ['10.0.1.12', '', '', '', '', '', '180', '', '17', ''],
      ['10.0.1.10', '', '', '', '', '', '80', '', '17', ''],
      ['10.0.1.10', '', '', '', '', '', '', '8', '1', ''],
      ['10.0.0.1', '', '', '', '', '', '', '', '253', ''],
      ['10.0.2.10', '', '0x0010', '1', '1449', '0', '', '', '6', ''], // acknowledges what left
      ['10.0.2.10', '', '', '', '', '', '', '0', '1', ''],
    ]);
    assert.equal(ipv6Bytes('fd00:1::10.0.0.1').toString('hex'), 'fd00000100000000000000000a000001');
  });

  it('writes qlog whose records are in order of time and say what the records say', async () => {
    await exported(['--format', 'qlog', '--out', 'x.sqlog']);
    const text = fs.readFileSync(place.path('x.sqlog'), 'utf8');
    assert.ok(text.startsWith('\x1e') && text.endsWith('\n'));
    const [head, ...events] = text.split('\x1e').slice(1).map((record) => JSON.parse(record) as Record<string, unknown>) as [{ file_schema: string; serialization_format: string; trace: { event_schemas: string[] } }, ...{ time: number; name: string; group_id: string; data: Record<string, unknown> }[]];
    assert.equal(head.file_schema, 'urn:ietf:params:qlog:file:sequential');
    assert.equal(head.serialization_format, 'application/qlog+json-seq');
    for (let i = 1; i < events.length; i++) assert.ok(events[i]!.time >= events[i - 1]!.time, `event ${i}`);
    const count = (name: string): number => events.filter((event) => event.name === name).length;
    assert.equal(count('queue:packet_enqueued'), packets.length);
    assert.equal(count('queue:packet_dropped'), packets.filter(({ dropped }) => dropped).length);
    assert.equal(count('queue:packet_dequeued'), packets.filter(({ t_dequeue }) => t_dequeue !== null).length);
    const sockets = await rowsOf<{ t: number; flow: number; cwnd: number; srtt: number }>(path.join(run, 'sockets.parquet'));
    const metrics = events.filter(({ name }) => name === 'tcp:recovery_metrics_updated');
    assert.deepEqual(metrics.map(({ time, group_id, data }) => [time, group_id, data['congestion_window_packets'], data['smoothed_rtt']]), sockets.map(({ t, flow, cwnd, srtt }) => [t / 1e6, `flow-${flow}`, cwnd, srtt / 1e6]));
    const sojourns = (flow: number): number[] => events.filter(({ name, group_id }) => name === 'queue:packet_dequeued' && group_id === `flow-${flow}`).map(({ data }) => data['sojourn'] as number);
    assert.deepEqual(sojourns(2), packets.filter(({ flow, t_dequeue }) => flow === 2 && t_dequeue !== null).map(({ t_enqueue, t_dequeue }) => (t_dequeue! - t_enqueue) / 1e6));
    const documented = fs.readFileSync(new URL('../../../docs/export.md', import.meta.url), 'utf8');
    for (const name of new Set(events.map((event) => event.name))) assert.ok(documented.includes(`\`${name}\``), `${name} is documented`);
  });

  it('writes a file that flent draws, and whose series are the records', async function () {
    await exported(['--format', 'flent', '--out', 'x.flent.gz']);
    const data = JSON.parse(zlib.gunzipSync(fs.readFileSync(place.path('x.flent.gz'))).toString()) as { version: number; x_values: number[]; results: Record<string, (number | null)[]>; raw_values: Record<string, { t: number; val: number }[]>; metadata: { NAME: string; STEP_SIZE: number } };
    assert.equal(data.version, 4);
    for (const values of Object.values(data.results)) assert.equal(values.length, data.x_values.length);
    // What a flow had acknowledged is what its series amounts to.
    const sockets = await rowsOf<{ flow: number; bytes_acked: number }>(path.join(run, 'sockets.parquet'), 'WHERE flow = 1 ORDER BY t');
    const bits = data.results['TCP upload::2']!.reduce<number>((sum, value) => sum + (value ?? 0) * 1e6 * data.metadata.STEP_SIZE, 0);
    assert.ok(Math.abs(bits / 8 / sockets.at(-1)!.bytes_acked - 1) < 0.001, `${bits / 8} of ${sockets.at(-1)!.bytes_acked} bytes`);
    const probes = await rowsOf<{ t: number; rtt: number | null }>(path.join(run, 'probes.parquet'), 'ORDER BY t');
    assert.deepEqual(data.raw_values['Ping (ms) ICMP']!.map(({ val }) => val), probes.flatMap(({ rtt }) => (rtt === null ? [] : [rtt / 1e6])));
    const first = probes.filter(({ t, rtt }) => t < 0.2e9 && rtt !== null).map(({ rtt }) => rtt! / 1e6);
    assert.ok(Math.abs(data.results['Ping (ms) ICMP']![0]! - first.reduce((sum, value) => sum + value, 0) / first.length) < 1e-6);

    if (spawnSync('flent', ['--version'], { stdio: 'ignore' }).status !== 0) skip(this, 'flent is not installed');
    if (spawnSync('/usr/bin/python3', ['-c', 'import matplotlib'], { stdio: 'ignore' }).status !== 0) skip(this, 'python3-matplotlib, which flent draws with, is not installed');
    const flent = (args: readonly string[]): string => execFileSync('flent', ['-i', place.path('x.flent.gz'), ...args], { cwd: place.folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], timeout: 100_000, env: { ...process.env, MPLCONFIGDIR: place.folder, HOME: place.folder } });
    for (const plot of ['totals', 'upload_with_ping_and_tcp_rtt', 'ping_cdf']) {
      const file = place.path(`${plot}.png`);
      flent(['-p', plot, '-o', file]);
      const png = fs.readFileSync(file);
      assert.equal(png.subarray(1, 4).toString(), 'PNG');
      assert.ok(png.length > 10_000, `${plot} has ${png.length} bytes`);
    }
    flent(['-f', 'csv', '-o', place.path('back.csv')]);
    const [head, ...lines] = fs.readFileSync(place.path('back.csv'), 'utf8').trim().split(/\r?\n/);
    const names = head!.split(',').map((name) => name.replaceAll('"', ''));
    for (const name of ['TCP upload::2', 'TCP upload sum', 'Ping (ms) ICMP']) {
      const column = names.indexOf(name);
      assert.ok(column > 0, `${name} is among ${names.join(', ')}`);
      const values = lines.map((line) => line.split(',')[column]!).map((value) => (value === '' ? null : Number(value)));
      assert.deepEqual(values, data.results[name]);
    }
  });

  // The other two formats take no packets (flent) or are followed on disk (influx); five million for each: npm run bench store.
  it('holds no more memory for ten times the packets', async function () {
    const peaks: number[][] = [];
    for (const rows of [60_000, 600_000]) {
      const large = await writeSyntheticPacketRun(place.path(`large-${rows}`), rows);
      peaks.push(await Promise.all((['csv', 'json', 'parquet', 'qlog', 'pcapng'] as const).map(async (format) => {
        const { stderr, code } = await new Promise<{ stderr: string; code: number | null }>((resolve, reject) => {
          const child = spawn(process.execPath, ['--import', peakAtExit, program, 'export', large, '--format', format, ...(['csv', 'json', 'parquet'].includes(format) ? ['--table', 'packets'] : []), '--out', place.path(`${rows}.${format}`)], { cwd: place.folder, stdio: ['ignore', 'ignore', 'pipe'] });
          let text = '';
          child.stderr.on('data', (chunk: Buffer) => { text += chunk.toString(); });
          child.on('error', reject);
          child.on('close', (status) => { resolve({ stderr: text, code: status }); });
        });
        assert.equal(code, 0, stderr);
        assert.doesNotMatch(stderr, /Warning/, 'no listeners pile up');
        return Number(/peak=(\d+)/.exec(stderr)![1]) / 1024;
      })));
    }
    // 600 000 rows held as objects would be 100 MB and more.
    for (const [i, small] of peaks[0]!.entries()) assert.ok(peaks[1]![i]! < small + 80, `${small.toFixed(0)} MB, then ${peaks[1]![i]!.toFixed(0)} MB`);
  });

  describe('says what is wrong, and leaves no half file', () => {
    const fails = async (args: readonly string[], pattern: RegExp, code: number): Promise<void> => {
      const result = await place.testbed(['export', ...args]);
      assert.match(result.stderr, pattern);
      assert.doesNotMatch(result.stderr, /This is a bug/);
      assert.equal(result.code, code, result.stderr);
    };

    it('for a run that is not there, a folder that is none, another schema and a table that was not recorded', async () => {
      await fails(['synthetik-20260101', '--format', 'csv'], /no run "synthetik-20260101".*near: synthetic-20260101-aaaaaa/, 1);
      fs.mkdirSync(place.path('plain'));
      await fails([place.path('plain'), '--format', 'csv'], /is a folder, but not a run's/, 1);
      const newer = place.path('results/runs/newer-1');
      fs.mkdirSync(path.join(newer, 'raw'), { recursive: true });
      fs.writeFileSync(path.join(newer, 'run.json'), JSON.stringify({ ...runJson(), schema: 7 }));
      await fails(['newer-1', '--format', 'csv'], /cannot be exported: it is of schema 7, written by a newer testbed; this one reads 1/, 1);
      const bare = place.path('results/runs/bare-1');
      fs.mkdirSync(path.join(bare, 'raw'), { recursive: true });
      fs.writeFileSync(path.join(bare, 'run.json'), JSON.stringify(runJson()));
      fs.copyFileSync(path.join(run, 'raw', 'plan.json'), path.join(bare, 'raw', 'plan.json'));
      await fails(['bare-1', '--format', 'csv', '--table', 'packets'], /bare-1 has no packets .*--no-packets/, 1);
      await fails(['bare-1', '--format', 'pcapng'], /no packet records/, 1);
      assert.deepEqual(fs.readdirSync(place.folder).filter((name) => /bare|partial/.test(name)), []);
    });

    it('for options that do not go together', async () => {
      await fails(['aaaaaa', '--format', 'qlog', '--table', 'flows'], /--table is not for --format qlog/, 2);
      await fails(['aaaaaa', '--format', 'csv', '--bottleneck', 'BL1'], /--bottleneck is not for --format csv/, 2);
      await fails(['aaaaaa', '--format', 'pcapng', '--bottleneck', 'BL2'], /no bottleneck direction "BL2"; it has BL1, BL1\.reverse/, 2);
      await fails(['aaaaaa', '--format', 'csv', '--out', '-'], /standard output takes one file/, 2);
      await fails(['aaaaaa', '--format', 'xml'], new RegExp(`Allowed choices are ${Object.keys(exportFormats).join(', ')}`), 2);
    });

    it('for a file that is there, unless forced', async () => {
      const file = place.write('mine.csv', 'precious');
      await fails(['aaaaaa', '--format', 'csv', '--table', 'flows', '--out', file], /is there already.*--force/, 2);
      assert.equal(fs.readFileSync(file, 'utf8'), 'precious');
      await exported(['--format', 'csv', '--table', 'flows', '--out', file, '--force']);
      assert.match(fs.readFileSync(file, 'utf8'), /^id,class/);
    });

    it('for a record file that is half-written', async () => {
      const torn = place.path('results/runs/torn-1');
      fs.cpSync(run, torn, { recursive: true });
      fs.truncateSync(path.join(torn, 'packets.parquet'), 5000);
      for (const format of ['csv', 'parquet', 'qlog', 'pcapng']) await fails(['torn-1', '--format', format, '--out', place.path(`torn-${format}/x`)], /packets\.parquet is half-written or damaged/, 1);
      for (const format of ['qlog', 'pcapng']) assert.equal(fs.existsSync(place.path(`torn-${format}/x`)), false);
    });

    it('for a disk that fills up', async function () {
      await fails(['aaaaaa', '--format', 'csv', '--table', 'packets', '--out', '/dev/full'], /\/dev\/full: the disk is full/, 1);
      if (process.getuid?.() !== 0) skip(this, 'mounting a small file system needs root');
      const small = place.path('small');
      fs.mkdirSync(small);
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', small]);
      try {
        for (const [format, ...more] of [['csv', '--table', 'packets'], ['pcapng'], ['qlog']]) {
          await fails(['aaaaaa', '--format', format!, ...more, '--out', path.join(small, 'x')], /small\/x: the disk is full; what was written of it is removed/, 1);
          assert.deepEqual(fs.readdirSync(small), [], format);
        }
      } finally {
        execFileSync('umount', ['-l', small]);
      }
    });

    it('when it is interrupted', async () => {
      const large = await writeSyntheticPacketRun(place.path('interrupted'), 400_000);
      const started = place.start(['export', large, '--format', 'qlog', '--out', place.path('z.sqlog')]);
      const partial = place.path('z.sqlog.partial');
      for (let i = 0; i < 6000 && !(fs.existsSync(partial) && fs.statSync(partial).size > 0) && started.child.exitCode === null; i++) await new Promise((resolve) => { setTimeout(resolve, 5); });
      started.child.kill('SIGTERM');
      const { code, stderr } = await started.ended;
      assert.equal(code, 130, stderr);
      assert.match(stderr, /the file that was being written is removed/);
      assert.deepEqual(fs.readdirSync(place.folder).filter((name) => name.startsWith('z.sqlog')), []);
    });
  });
});

describe('events of several sources', () => {
  it('come in order of time, also those that wait behind others', async () => {
    async function* rows(times: readonly (readonly [number, number])[]): AsyncGenerator<(readonly [number, number])[]> {
      for (let i = 0; i < times.length; i += 3) yield times.slice(i, i + 3);
    }
    const split = ([at, until]: readonly [number, number], add: (event: { t: number }) => void): void => { add({ t: at }); add({ t: until }); };
    const one = Array.from({ length: 50 }, (_, i) => [i * 10, i * 10 + ((i * 37) % 90)] as const);
    const two = Array.from({ length: 30 }, (_, i) => [i * 7, i * 7 + 200] as const);
    const out: number[] = [];
    for await (const events of inTimeOrder([spread(rows(one), ([at]) => at, split), spread(rows(two), ([at]) => at, split), spread(rows([]), ([at]) => at, split)])) out.push(...events.map(({ t }) => t));
    assert.deepEqual(out, [...one, ...two].flat().sort((a, b) => a - b));
  });
});
