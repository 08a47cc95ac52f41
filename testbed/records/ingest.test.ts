import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { UserError } from '../errors.js';
import { openDatabase, sqlPath } from './database.js';
import { ingest, parquetOf } from './ingest.js';
import { captureFields, dropReasonCode, packetFields, probeFields, queueFields } from './raw.js';
import { headerBytes, RecordWriter } from './record-file.js';
import { syntheticPlan, writeSyntheticRaw } from './synthetic-raw.js';
import type { SyntheticPacket } from './synthetic-raw.js';
import { tables } from './tables.js';
import type { TableName } from './tables.js';
import { temporaryFolder } from '../testing/temporary-folder.js';

const tableNames = Object.keys(tables) as TableName[];

describe('ingest', function ingestTests() {
  this.timeout(60_000);
  let runDir: string;
  beforeEach(() => { runDir = temporaryFolder('testbed-ingest-'); });
  afterEach(() => { fs.rmSync(runDir, { recursive: true, force: true }); });

  async function read(table: TableName): Promise<Record<string, unknown>[]> {
    const database = await openDatabase();
    try {
      return await database.rows(`SELECT * FROM read_parquet(${sqlPath(parquetOf(runDir, table))})`);
    } finally {
      database.close();
    }
  }
  const hashes = (dir: string): string[] => tableNames.map((table) => createHash('sha256').update(fs.readFileSync(parquetOf(dir, table))).digest('hex'));
  const raw = (name: string): string => path.join(runDir, 'raw', name);
  const cut = (file: string, bytes: number): void => fs.truncateSync(file, fs.statSync(file).size - bytes);

  it('recovers what became of every packet from captures whose rings were drained one after the other', async () => {
    const truth: SyntheticPacket[] = [];
    writeSyntheticRaw(runDir, { packets: 20_000, load: 1.1, limitPackets: 50, markEvery: 10, batchRows: 300, onPacket: (packet) => truth.push(packet) });
    truth.sort((a, b) => a.tEnqueue - b.tEnqueue);
    const result = await ingest(runDir);
    assert.equal(result.rows.packets, 20_000);
    assert.deepEqual(result.findings, []);
    const rows = await read('packets');
    assert.deepEqual(rows.map((row) => [row['t_enqueue'], row['t_dequeue'], row['dropped'], row['marked'], row['flow'], row['size'], row['seq']]),
      truth.map((packet, seq) => [packet.tEnqueue, packet.tDequeue, packet.tDequeue === null, packet.marked, packet.flow, packet.size, seq]));
    assert.ok(truth.some((packet) => packet.tDequeue === null), 'the queue dropped some');
  });

  it('writes the same bytes for the same raw folder, wherever it is', async () => {
    writeSyntheticRaw(runDir, { packets: 5000, load: 1.05, limitPackets: 40, shortFlows: 10, batchRows: 64 });
    await ingest(runDir);
    const first = hashes(runDir);
    await ingest(runDir);
    assert.deepEqual(hashes(runDir), first);
    const copy = temporaryFolder('testbed-ingest copy [1]*');
    try {
      fs.cpSync(path.join(runDir, 'raw'), path.join(copy, 'raw'), { recursive: true });
      await ingest(copy);
      assert.deepEqual(hashes(copy), first);
    } finally {
      fs.rmSync(copy, { recursive: true, force: true });
    }
  });

  it('writes every table with its columns, in order, also when nothing was recorded', async () => {
    writeSyntheticRaw(runDir, { packets: 10 });
    for (const file of fs.readdirSync(path.join(runDir, 'raw'))) if (file !== 'plan.json') fs.rmSync(raw(file));
    const { rows } = await ingest(runDir);
    assert.deepEqual(rows, { flows: 4, queue: 0, packets: 0, probes: 0, sockets: 0 });
    const database = await openDatabase();
    try {
      for (const table of tableNames) {
        const described = await database.rows<{ column_name: string; column_type: string }>(`DESCRIBE SELECT * FROM read_parquet(${sqlPath(parquetOf(runDir, table))})`);
        assert.deepEqual(described.map((column) => [column.column_name, column.column_type]), tables[table].columns.map((column) => [column.name, column.type]), table);
      }
    } finally {
      database.close();
    }
    assert.deepEqual((await read('flows')).map((row) => [row['id'], row['status'], row['t_start']]), [0, 1, 2, 3].map((id) => [id, 'not-started', null]));
  });

  it('reads all that was written before a run was killed: torn rows, torn lines, a header that never came', async () => {
    writeSyntheticRaw(runDir, { packets: 3000, queueIntervalNs: 10e6 });
    cut(raw('captures-R1.rec'), 13);
    cut(raw('queue-BL1.rec'), 5);
    cut(raw('flows.jsonl'), 20);
    fs.truncateSync(raw('sockets.rec'), 100);
    fs.writeFileSync(raw('probes.rec'), '');
    const { rows, findings, captures } = await ingest(runDir);
    assert.equal(rows.packets, 3000);
    assert.equal(captures[0]!.left, 2999);
    assert.equal(rows.sockets, 0);
    assert.equal(rows.probes, 0);
    assert.ok(rows.queue > 0);
    assert.deepEqual((await read('flows')).map((row) => row['status']), ['running', 'running', 'running', 'not-started']);
    assert.deepEqual(findings.map((finding) => finding.rule), ['record-unreadable', 'record-unreadable', 'record-unreadable']);
    assert.match(findings.map((finding) => finding.message).join('\n'), /probes\.rec[\s\S]*sockets\.rec[\s\S]*flows\.jsonl/);
  });

  it('makes a capture ring that lost packets invalidate the run', async () => {
    writeSyntheticRaw(runDir, { packets: 100 });
    fs.writeFileSync(raw('captures-R1.json'), JSON.stringify({ directions: ['BL1', 'BL1.reverse'], lost: 3 }));
    const { findings } = await ingest(runDir);
    assert.deepEqual(findings.map(({ level, rule }) => [level, rule]), [['invalid', 'capture-lost']]);
  });

  it('warns when the captures show other drops than the queue counted', async () => {
    const writer = (): void => { writeSyntheticRaw(runDir, { packets: 2000 }); };
    writer();
    const queue = new RecordWriter(raw('queue-BL1.rec'), 'queue', { bottleneck: 'BL1' }, queueFields);
    queue.row(0, 0, 0, 0, 0, 0, 0);
    queue.row(1e9, 0, 0, 0, 0, 77, 0);
    queue.close();
    const { findings } = await ingest(runDir);
    assert.deepEqual(findings.map(({ rule }) => rule), ['drops-disagree']);
  });

  it('does not judge by samples that the captures do not reach, as of a run that was interrupted', async () => {
    writeSyntheticRaw(runDir, { packets: 2000 });
    const queue = new RecordWriter(raw('queue-BL1.rec'), 'queue', { bottleneck: 'BL1' }, queueFields);
    queue.row(0, 0, 0, 0, 0, 0, 0);
    queue.row(1e12, 0, 0, 0, 0, 77, 0);
    queue.close();
    assert.deepEqual((await ingest(runDir)).findings, []);
  });

  describe('of a queue that throws packets away', () => {
    // 100 packets come, one a ms. Ten leave, one each 10 ms, until 100 ms; more of them leave later, long after the last sample.
    const waitAt = (ms: number): number => ms - Math.floor(ms / 10);
    async function account(eventsAtMs: readonly number[], samples: readonly (readonly [ms: number, backlog: number, drops: number])[]): Promise<readonly string[]> {
      writeSyntheticRaw(runDir, { packets: 10, captures: false, queueIntervalNs: null });
      const plan = syntheticPlan({ packets: 10 });
      const events = eventsAtMs.map((ms) => ({ atNs: ms * 1e6, direction: 'BL1', set: { queue: { kind: 'fq_codel', in: 'kernel', params: { limit: 10 } } } }));
      fs.writeFileSync(raw('plan.json'), JSON.stringify({ ...plan, events }));
      fs.writeFileSync(raw('captures-R1.json'), JSON.stringify({ directions: ['BL1', 'BL1.reverse'], lost: 0 }));
      const captures = new RecordWriter(raw('captures-R1.rec'), 'captures', {}, captureFields);
      for (let ms = 1; ms <= 100; ms++) {
        captures.row(ms * 1e6, ms, 0, 1500, 0, 0, 0, 2, 1);
        if (ms % 10 === 0) captures.row(ms * 1e6 + 1, ms / 10, 0, 1500, 0, 0, 1, 2, 1);
      }
      for (let i = 11; i <= 30; i++) captures.row(3e9 + i * 10e6, i, 0, 1500, 0, 0, 1, 2, 1);
      captures.close();
      const queue = new RecordWriter(raw('queue-BL1.rec'), 'queue', { bottleneck: 'BL1' }, queueFields);
      for (const [ms, backlog, drops] of samples) queue.row(ms * 1e6 + 2, 0, backlog, 0, 0, drops, 0);
      queue.close();
      return (await ingest(runDir)).findings.map(({ rule, message }) => `${rule}: ${message}`);
    }

    it('says nothing when its counters account for all that is missing, though it drops more while it drains unobserved', async () => {
      assert.deepEqual(await account([], [[20, waitAt(20), 0], [100, waitAt(100) - 40, 40]]), []);
    });

    it('says nothing of what a change of parameters threw away uncounted', async () => {
      assert.deepEqual(await account([30], [[20, waitAt(20), 0], [40, waitAt(40) - 26, 0], [100, waitAt(100) - 40, 14]]), []);
      assert.deepEqual(await account([30, 31, 90], [[20, waitAt(20), 0], [89, waitAt(89) - 26, 0], [100, waitAt(100) - 60, 14]]), []);
    });

    it('warns of what is missing for no such reason, and says how much a change threw away', async () => {
      assert.deepEqual(await account([], [[20, waitAt(20), 0], [40, waitAt(40) - 26, 0], [100, waitAt(100) - 40, 14]]),
        ['drops-disagree: BL1: by 0.100 s the queue had counted 14 drops, the captures show 40; loss figures come from the captures']);
      assert.deepEqual(await account([5], [[4, waitAt(4), 0], [60, waitAt(60) - 12, 0], [100, waitAt(100) - 60, 20]]),
        ['drops-disagree: BL1: by 0.100 s the queue had counted 20 drops, the captures show 60, 12 of them thrown away uncounted by a change of its parameters; loss figures come from the captures']);
    });
  });

  it("puts an engine's own packet records into order of arrival", async () => {
    writeSyntheticRaw(runDir, { packets: 10, captures: false });
    const file = new RecordWriter(raw('packets-BL1.rec'), 'packets', { bottleneck: 'BL1' }, packetFields);
    file.row(30, NaN, 1500, 2, 1, 1, 0, 1, dropReasonCode('filter'), 2);
    file.row(10, 40, 1500, 0, 1, 0, 0, 2, 0, 0);
    file.row(20, 50, 52, -0x80000000, 0, 0, 1, 3, 0, 1);
    // At one instant the one that finds no room is through with the queue before those that came first.
    file.row(70, NaN, 100, -1, 1, 1, 0, 3, dropReasonCode('limit'), 5);
    file.row(70, 90, 101, -1, 1, 0, 0, 0, 0, 3);
    file.row(70, NaN, 102, -1, 1, 0, 0, 0, 0, 4);
    file.row(80, NaN, 100, -1, 1, 1, 0, 0, 0, 6);
    file.close();
    await ingest(runDir);
    assert.deepEqual((await read('packets')).map((row) => [row['t_enqueue'], row['t_dequeue'], row['dropped'], row['marked'], row['flow'], row['forward'], row['ecn'], row['seq'], row['drop_reason']]), [
      [10, 40, false, false, 0, true, 2, 0, null], [20, 50, false, true, null, false, 3, 1, null], [30, null, true, false, 2, true, 1, 2, 'filter'], [70, 90, false, false, -1, true, 0, 3, null],
      [70, null, false, false, -1, true, 0, 4, null], [70, null, true, false, -1, true, 3, 5, 'limit'], [80, null, true, false, -1, true, 0, 6, null],
    ]);
  });

  it('reads packet records of before they told why a packet was dropped, and after how many others it came', async () => {
    writeSyntheticRaw(runDir, { packets: 10, captures: false });
    const file = new RecordWriter(raw('packets-BL1.rec'), 'packets', { bottleneck: 'BL1' }, packetFields.filter(({ name }) => name !== 'drop_reason' && name !== 'arrival'));
    file.row(20, NaN, 1500, 0, 1, 1, 0, 1);
    file.row(10, NaN, 1500, 0, 1, 1, 0, 2);
    file.close();
    const { findings } = await ingest(runDir);
    assert.deepEqual(findings, []);
    assert.deepEqual((await read('packets')).map((row) => [row['dropped'], row['ecn'], row['drop_reason']]), [[true, 2, null], [true, 1, null]]);
  });

  it('keeps the state columns of different AQMs apart, null where an AQM has none', async () => {
    writeSyntheticRaw(runDir, { packets: 10, queueIntervalNs: null });
    const pie = new RecordWriter(raw('queue-BL1.rec'), 'queue', { bottleneck: 'BL1' }, [...queueFields, { name: 'prob', type: 'f64' }]);
    pie.row(5, 100, 1, 0, 0, 0, NaN, 0.25);
    pie.close();
    const codel = new RecordWriter(raw('queue-BL1.reverse.rec'), 'queue', { bottleneck: 'BL1.reverse' }, [...queueFields, { name: 'count', type: 'f64' }]);
    codel.row(5, 0, 0, 0, 0, 0, 4, 7);
    codel.row(NaN, 0, 0, 0, 0, 0, 4, 7);
    codel.close();
    await ingest(runDir);
    assert.deepEqual((await read('queue')).map((row) => [row['bottleneck'], row['marks'], row['count'], row['prob']]), [['BL1', null, null, 0.25], ['BL1.reverse', 4, 7, null]]);
  });

  it('takes values that are no numbers, or too large for their column, for absent', async () => {
    const plan = writeSyntheticRaw(runDir, { packets: 10 });
    const probes = new RecordWriter(raw('probes.rec'), 'probes', {}, probeFields);
    probes.row(0, 1, 100, Infinity, NaN, 1e300);
    probes.row(0, 0, 50, 7.4, 3, 4.4);
    probes.row(9, 0, 50, NaN, NaN, NaN);
    probes.close();
    await ingest(runDir);
    assert.deepEqual((await read('probes')).map((row) => [row['probe'], row['seq'], row['rtt'], row['owd_reverse'], row['lost']]),
      [[plan.probes[0]!.name, 0, 7, 4, false], [plan.probes[0]!.name, 1, null, null, true], [null, 0, null, null, true]]);
  });

  it('says whose folder it is not, when there is no plan', async () => {
    await assert.rejects(ingest(runDir), (error: unknown) => error instanceof UserError && /plan\.json/.test(error.message) && error.message.includes(runDir));
  });

  it('completes flows from the plan and takes the last line of each', async () => {
    const plan = syntheticPlan({ packets: 10, flows: 1, shortFlows: 1 });
    fs.mkdirSync(path.join(runDir, 'raw'));
    fs.writeFileSync(raw('plan.json'), JSON.stringify(plan));
    const line = (over: object): string => `${JSON.stringify({ id: 1, t_start: 100, t_connected: 150, t_end: 900, bytes: 60000, retransmits: 1, status: 'complete', error: null, ...over })}\n`;
    fs.writeFileSync(raw('flows.jsonl'), line({ t_end: 1 }) + line({}) + line({ id: 77 }) + 'null\n{"id"');
    const { findings } = await ingest(runDir);
    const rows = await read('flows');
    assert.deepEqual(rows.map((row) => [row['class'], row['cc'], row['fct'], row['status'], row['t_end']]), [['long', 'cubic', null, 'not-started', null], ['web', 'cubic', 800, 'complete', 900]]);
    assert.equal(findings.length, 2);
  });

  it('does not mistake a file shorter than its header for records', async () => {
    writeSyntheticRaw(runDir, { packets: 10 });
    fs.truncateSync(raw('queue-BL1.rec'), headerBytes);
    const { rows } = await ingest(runDir);
    assert.equal(rows.queue, 0);
  });
});
