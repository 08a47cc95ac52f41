/**
 * One InfluxDB server: a batch of lines goes to it once, through the official client, and the answer says what to do next.
 * Trying again is the caller's business (sender.ts), because the points wait on disk and not in the client's memory. InfluxDB
 * before 2.0 has no /api/v2: there the bucket is a database.
 */

import * as http from 'node:http';
import * as https from 'node:https';
import type { Socket } from 'node:net';
import { HttpError, InfluxDB, setLogger } from '@influxdata/influxdb-client';
import { type InfluxSettings, redact } from './settings.js';

/** What became of a batch; messages never hold the token. */
export type Answer =
  | { readonly kind: 'stored' }
  /** The server is away, busy or does not answer; `waitMs`: what it asked for (Retry-After), or null. `lost`: the connection broke. */
  | { readonly kind: 'later'; readonly waitMs: number | null; readonly lost: boolean; readonly message: string }
  /** The same batch would be refused again: a wrong token or bucket, a field of another type. */
  | { readonly kind: 'refused'; readonly message: string }
  /** Fewer lines at once may be taken. */
  | { readonly kind: 'too-large'; readonly message: string };

// The client would write failures to the console, the whole error with it.
setLogger({ error: () => undefined, warn: () => undefined });

export class InfluxServer {
  private readonly agent: http.Agent;
  private version: 1 | 2 = 2;
  private readonly watched = new WeakSet<Socket>();
  private connectionEndedMs: number | null = null;

  constructor(private readonly settings: InfluxSettings, private readonly limitMs: number) {
    const options: http.AgentOptions = { keepAlive: true, maxSockets: 1 };
    this.agent = settings.url.startsWith('https:') ? new https.Agent(options) : new http.Agent(options);
    this.agent.on('free', (socket: Socket) => {
      if (this.watched.has(socket)) return;
      this.watched.add(socket);
      socket.once('close', () => { this.connectionEndedMs = performance.now(); });
    });
  }

  /** When the connection over which points went ended, performance.now(), if it did since this was asked last: the server may have been restarted meanwhile. */
  takeConnectionEnded(): number | null {
    const ended = this.connectionEndedMs;
    this.connectionEndedMs = null;
    return ended;
  }

  async write(lines: readonly string[]): Promise<Answer> {
    const answer = await this.attempt(lines);
    if (answer !== 'no such path') return answer;
    this.version = 1;
    const older = await this.attempt(lines);
    return older === 'no such path' ? { kind: 'refused', message: 'answered 404: there is no InfluxDB at this URL' } : older;
  }

  close(): void {
    this.agent.destroy();
  }

  private async attempt(lines: readonly string[]): Promise<Answer | 'no such path'> {
    const { url, org, bucket, token } = this.settings;
    const stop = new AbortController();
    const timer = setTimeout(() => { stop.abort(); }, this.limitMs);
    const api = new InfluxDB({
      url, ...(token === null ? {} : { token }),
      timeout: 0, // of an idle socket; the whole exchange has a bound instead, which a server that trickles meets too
      transportOptions: { agent: this.agent, signal: stop.signal },
    }).getWriteApi(org, bucket, 'ns', {
      maxRetries: 0, flushInterval: 0, batchSize: lines.length + 1, maxBatchBytes: 2 ** 30,
      // InfluxDB 1.x knows no tokens, only names and passwords.
      ...(this.version === 1 && token?.includes(':') ? { headers: { authorization: `Basic ${Buffer.from(token).toString('base64')}` } } : {}),
    });
    if (this.version === 1) api.path = `/write?db=${encodeURIComponent(bucket)}&precision=ns`;
    try {
      api.writeRecords([...lines]);
      await api.flush();
      return { kind: 'stored' };
    } catch (error) {
      const answer = this.judge(error, stop.signal.aborted);
      if (!(error instanceof HttpError)) stop.abort(); // a connection that answered by halves is of no more use
      return answer;
    } finally {
      clearTimeout(timer);
    }
  }

  private judge(error: unknown, timedOut: boolean): Answer | 'no such path' {
    if (timedOut) return { kind: 'later', waitMs: null, lost: false, message: `no whole answer within ${this.limitMs / 1000} s` };
    if (!(error instanceof HttpError)) {
      const code = error instanceof Error && 'code' in error ? String(error.code) : '';
      const text = error instanceof Error ? error.message || error.name : String(error);
      return { kind: 'later', waitMs: null, lost: true, message: redact(code !== '' && !text.includes(code) ? `${text} (${code})` : text, this.settings) };
    }
    const { statusCode: status } = error;
    const json = error.json as { readonly code?: unknown; readonly message?: unknown; readonly error?: unknown } | undefined;
    if (status === 404 && this.version === 2 && json === undefined) return 'no such path';
    const told = [json?.message, json?.error, error.body, error.statusMessage].find((text): text is string => typeof text === 'string' && text.trim() !== '') ?? '';
    const message = redact(`answered ${status}${told === '' ? '' : `: ${told.trim().replace(/\s+/g, ' ')}`}`, this.settings).slice(0, 300);
    if (status === 413) return { kind: 'too-large', message };
    if (status === 408 || status === 429 || status >= 500) return { kind: 'later', waitMs: retryAfterMs(error), lost: false, message };
    return { kind: 'refused', message: `${message}${advice(status)}` };
  }
}

/** Retry-After in either of its forms; null when the server did not say. */
function retryAfterMs(error: HttpError): number | null {
  const said = error.headers?.['retry-after'];
  if (typeof said !== 'string') return null;
  const ms = /^\s*\d+\s*$/.test(said) ? Number(said) * 1000 : Date.parse(said) - Date.now();
  return Number.isFinite(ms) ? Math.max(0, ms) : null;
}

const advice = (status: number): string => {
  if (status === 401 || status === 403) return '; is INFLUX_TOKEN one that may write to this bucket?';
  if (status === 404) return '; does the bucket (INFLUX_BUCKET) exist in this organisation (INFLUX_ORG)?';
  if (status === 400) return '; a bucket of its own for testbed has neither fields of other types nor a short retention time';
  return '';
};
