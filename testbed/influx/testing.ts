/** For tests: real servers on loopback ports with folders of their own, and one that answers as it is told. */

import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import * as fs from 'node:fs';
import * as http from 'node:http';
import * as net from 'node:net';
import * as path from 'node:path';
import { gunzipSync } from 'node:zlib';
import { findProgram } from '../../kernel/project.js';
import { eventually } from '../testing/command.js';

export type Kind = 'victoria-metrics' | 'influxd';
export const programOf = (kind: Kind): string | null => findProgram(kind);

const freePort = (): Promise<number> => new Promise((resolve, reject) => {
  const server = net.createServer();
  server.on('error', reject);
  server.listen(0, '127.0.0.1', () => {
    const { port } = server.address() as net.AddressInfo;
    server.close(() => { resolve(port); });
  });
});

/** One field's values by time, ms or ns since 1970 as the server keeps it. */
export type Series = ReadonlyMap<string, number>;

/** A server that can be killed and started again with the same data. */
export class RealServer {
  private child: ChildProcess | null = null;
  private constructor(readonly kind: Kind, private readonly folder: string, readonly port: number, private readonly otherPort: number, readonly bucket: string) {}

  static async start(kind: Kind, folder: string, bucket = 'lab'): Promise<RealServer> {
    const server = new RealServer(kind, folder, await freePort(), await freePort(), bucket);
    fs.mkdirSync(folder, { recursive: true });
    await server.start();
    if (kind === 'influxd') await server.get(`/query?q=${encodeURIComponent(`CREATE DATABASE "${bucket}"`)}`, 'POST');
    return server;
  }

  get url(): string { return `http://127.0.0.1:${this.port}`; }
  get env(): Record<string, string> { return { INFLUX_URL: this.url, INFLUX_TOKEN: secret, INFLUX_ORG: 'org', INFLUX_BUCKET: this.bucket }; }

  async start(): Promise<void> {
    const log = fs.openSync(path.join(this.folder, 'log'), 'a');
    const program = programOf(this.kind);
    assert.ok(program !== null);
    this.child = spawn(program, this.kind === 'influxd' ? ['-config', this.configuration()] : [
      `-storageDataPath=${path.join(this.folder, 'data')}`, `-httpListenAddr=127.0.0.1:${this.port}`, '-retentionPeriod=100y', '-search.latencyOffset=0s', '-dedup.minScrapeInterval=1ms',
    ], { stdio: ['ignore', log, log] });
    fs.closeSync(log);
    let up = false;
    const asking = setInterval(() => { this.get(this.kind === 'influxd' ? '/ping' : '/health').then(() => { up = true; }, () => undefined); }, 50);
    try {
      await eventually(() => `${this.kind} answers: ${fs.readFileSync(path.join(this.folder, 'log'), 'utf8').slice(-1000)}`, () => up);
    } finally {
      clearInterval(asking);
    }
  }

  private configuration(): string {
    const file = path.join(this.folder, 'influxdb.conf');
    fs.writeFileSync(file, [
      'reporting-disabled = true', `bind-address = "127.0.0.1:${this.otherPort}"`, '[meta]', `dir = ${JSON.stringify(path.join(this.folder, 'meta'))}`,
      '[data]', `dir = ${JSON.stringify(path.join(this.folder, 'data'))}`, `wal-dir = ${JSON.stringify(path.join(this.folder, 'wal'))}`,
      '[http]', `bind-address = "127.0.0.1:${this.port}"`, 'log-enabled = false', '[monitor]', 'store-enabled = false', '',
    ].join('\n'));
    return file;
  }

  /** As by the out-of-memory killer. */
  async kill(): Promise<void> {
    const { child } = this;
    this.child = null;
    if (child === null || child.exitCode !== null || child.signalCode !== null) return;
    const gone = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGKILL');
    await gone;
  }

  /** How many series a query of the dashboard finds in the last ten minutes and the two to come. */
  async series(query: string): Promise<number> {
    const now = Math.floor(Date.now() / 1000);
    if (this.kind === 'influxd') {
      const { results } = JSON.parse(await this.get(`/query?db=${this.bucket}&q=${encodeURIComponent(query.replaceAll('$timeFilter', `time > ${now - 600}s AND time < ${now + 120}s`))}`)) as { results: { series?: unknown[]; error?: string }[] };
      assert.equal(results[0]!.error, undefined, query);
      return results[0]!.series?.length ?? 0;
    }
    const { data } = JSON.parse(await this.get(`/api/v1/query_range?start=${now - 600}&end=${now + 120}&step=100ms&nocache=1&query=${encodeURIComponent(query)}`)) as { data: { result: unknown[] } };
    return data.result.length;
  }

  private async get(where: string, method = 'GET'): Promise<string> {
    const response = await fetch(this.url + where, { method });
    const text = await response.text();
    assert.ok(response.ok, `${where}: ${response.status} ${text}`);
    return text;
  }

  /** Values of a field in points with these tags; every time stamp once, or the test fails. */
  async values(measurement: string, field: string, tags: Readonly<Record<string, string>>): Promise<Series> {
    const found: [string, number][] = this.kind === 'influxd' ? await this.fromInflux(measurement, field, tags) : await this.fromVictoria(measurement, field, tags);
    const series = new Map(found);
    assert.equal(series.size, found.length, `${measurement}.${field}: a time stamp twice`);
    return series;
  }

  private async fromInflux(measurement: string, field: string, tags: Readonly<Record<string, string>>): Promise<[string, number][]> {
    const where = Object.entries(tags).map(([name, value]) => `"${name}" = '${value}'`).join(' AND ');
    const query = `SELECT "${field}" FROM "${measurement}" WHERE ${where} GROUP BY *`;
    const text = await this.get(`/query?db=${this.bucket}&epoch=ns&q=${encodeURIComponent(query)}`);
    // Time stamps in ns are beyond what JSON numbers of JavaScript keep.
    const { results } = JSON.parse(text.replace(/\[(\d{19}),/g, '["$1",')) as { results: { series?: { values: [string, number][] }[]; error?: string }[] };
    assert.equal(results[0]!.error, undefined);
    const series = results[0]!.series ?? [];
    assert.ok(series.length <= 1, `${series.length} series of ${measurement}.${field}`);
    return series[0]?.values ?? [];
  }

  private async fromVictoria(measurement: string, field: string, tags: Readonly<Record<string, string>>): Promise<[string, number][]> {
    await this.get('/internal/force_flush');
    const match = `${measurement}_${field}{${Object.entries(tags).map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(',')}}`;
    // Virtual time runs ahead of the wall clock, and the server shows nothing of the future unless asked.
    const text = await this.get(`/api/v1/export?end=${Math.ceil(Date.now() / 1000) + 3600}&match[]=${encodeURIComponent(match)}`);
    const series = text.trim() === '' ? [] : text.trim().split('\n').map((line) => JSON.parse(line) as { values: number[]; timestamps: number[] });
    // A series may come in several blocks.
    return series.flatMap(({ values, timestamps }) => values.map((value, i): [string, number] => [String(timestamps[i]!), value]));
  }
}

/** A token that is easily found where it must not be. */
export const secret = 'tok3n-SeCrEt/that+must==not-appear';

export type Reply = (response: http.ServerResponse, body: string) => void;
export const status = (code: number, headers: http.OutgoingHttpHeaders = {}, body = ''): Reply => (response) => { response.writeHead(code, headers).end(body); };
export const silence: Reply = () => undefined;
export const half = (code: number): Reply => (response) => {
  response.writeHead(code, { 'content-type': 'application/json', 'content-length': '100' });
  response.write('{"code":"inte');
  setTimeout(() => { response.destroy(); }, 20);
};

/** Answers one request after the other as told, the rest with the last. Keeps the lines of those it answered with 204. */
export class ScriptedServer {
  readonly lines: string[] = [];
  readonly requests: { readonly atMs: number; readonly url: string; readonly authorization: string | undefined; readonly count: number; readonly method: string; readonly encoding: string | undefined; readonly type: string | undefined; readonly bytes: number }[] = [];
  private readonly server: http.Server;
  private constructor(private readonly replies: readonly Reply[]) {
    this.server = http.createServer((request, response) => {
      const pieces: Buffer[] = [];
      request.on('data', (piece: Buffer) => { pieces.push(piece); });
      request.on('end', () => {
        const bytes = Buffer.concat(pieces);
        const body = (request.headers['content-encoding'] === 'gzip' ? gunzipSync(bytes) : bytes).toString();
        const lines = body.split('\n');
        const reply = this.replies[Math.min(this.requests.length, this.replies.length - 1)]!;
        this.requests.push({ atMs: performance.now(), url: request.url ?? '', authorization: request.headers.authorization, count: lines.length, method: request.method ?? '', encoding: request.headers['content-encoding'], type: request.headers['content-type'], bytes: bytes.length });
        response.once('finish', () => { if (response.statusCode === 204) this.lines.push(...lines); });
        reply(response, body);
      });
    });
  }

  static async start(...replies: readonly Reply[]): Promise<ScriptedServer> {
    const server = new ScriptedServer(replies);
    await new Promise<void>((resolve) => { server.server.listen(0, '127.0.0.1', resolve); });
    return server;
  }
  get url(): string { return `http://127.0.0.1:${(this.server.address() as net.AddressInfo).port}`; }
  get env(): Record<string, string> { return { INFLUX_URL: this.url, INFLUX_TOKEN: secret, INFLUX_ORG: 'org', INFLUX_BUCKET: 'lab' }; }
  /** Points it has, each once. */
  get points(): number { return new Set(this.lines).size; }
  async close(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => { this.server.close(resolve); });
  }
}
