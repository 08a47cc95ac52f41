/**
 * A flent data file (`.flent.gz`, version 4: gzipped JSON, flent/resultset.py) as what the record tables need. Of its
 * series only the raw values are used, which are what the programs printed; `results` are those interpolated to a
 * common time axis.
 *
 *   netperf   t: end of a sample (Unix time, s); dur: its length, s; val: Mbit/s of payload
 *   fping     t: when the answer came; val: round-trip time, ms; seq
 *   irtt      t: when the answer came, of a lost packet when it was sent; val, owd_up, owd_down: ms; seq; lost
 */

import { gunzipSync } from 'node:zlib';
import type { Json } from './iperf3-json.js';

export interface RawValue {
  /** ns of the run. */
  readonly tNs: number;
  readonly val: number | null;
  readonly dur: number | null;
  readonly seq: number | null;
  readonly owdUp: number | null;
  readonly owdDown: number | null;
  readonly lost: boolean;
}
export interface SeriesData {
  readonly raw: readonly RawValue[];
  /** netperf's own account of the whole stream; null where it gave none. */
  readonly bytesSent: number | null;
  readonly bytesReceived: number | null;
  readonly retransmits: number | null;
  readonly congestionControl: string | null;
}
export interface FlentData {
  readonly test: string;
  readonly flentVersion: string | null;
  readonly series: ReadonlyMap<string, SeriesData>;
}

type JsonMap = { readonly [key: string]: Json };
const isMap = (value: Json | undefined): value is JsonMap => typeof value === 'object' && value !== null && !Array.isArray(value);
const own = (map: Json | undefined, key: string): Json | undefined => (isMap(map) && Object.hasOwn(map, key) ? map[key] : undefined);
const numberOf = (value: Json | undefined): number | null => {
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value; // TCP_RETRANSMIT is text in some series
  return typeof number === 'number' && Number.isFinite(number) ? number : null;
};
const counted = (value: Json | undefined): number | null => {
  const number = numberOf(value);
  return number !== null && number >= 0 ? number : null; // -1: netperf did not say
};

/**
 * @param realtimeAtStart CLOCK_REALTIME at run time 0, ns
 * @throws Error saying what is wrong with the file
 */
export function readFlentData(file: Uint8Array, realtimeAtStart: bigint): FlentData {
  let data: Json;
  try {
    data = JSON.parse(gunzipSync(file).toString('utf8')) as Json;
  } catch (error) {
    throw new Error(`not a whole data file of flent: ${(error as Error).message}`, { cause: error });
  }
  const metadata = own(data, 'metadata');
  const rawValues = own(data, 'raw_values');
  if (!isMap(metadata) || !isMap(rawValues)) throw new Error(`not a data file of flent with raw values (version ${String(numberOf(own(data, 'version')))}; they are there from version 4 on)`);
  // Unix time in double precision is good to 0.2 µs; the difference to the start is taken in whole seconds and a rest.
  const [startS, startNs] = [Number(realtimeAtStart / 1_000_000_000n), Number(realtimeAtStart % 1_000_000_000n)];
  const runNs = (t: number): number => Math.round((t - startS) * 1e9 - startNs);
  const series = new Map<string, SeriesData>();
  for (const [name, values] of Object.entries(rawValues)) {
    const raw = (Array.isArray(values) ? values as readonly Json[] : []).flatMap((value): RawValue[] => {
      const t = numberOf(own(value, 't'));
      return t === null ? [] : [{
        tNs: runNs(t), val: numberOf(own(value, 'val')), dur: numberOf(own(value, 'dur')), seq: numberOf(own(value, 'seq')),
        owdUp: numberOf(own(value, 'owd_up')), owdDown: numberOf(own(value, 'owd_down')), lost: own(value, 'lost') === true,
      }];
    });
    const meta = own(own(metadata, 'SERIES_META'), name);
    const cc = own(meta, 'CONG_CONTROL');
    series.set(name, {
      raw, bytesSent: counted(own(meta, 'BYTES_SENT')), bytesReceived: counted(own(meta, 'BYTES_RECVD')), retransmits: counted(own(meta, 'TCP_RETRANSMIT')),
      congestionControl: typeof cc === 'string' ? cc : null,
    });
  }
  const [test, version] = [own(metadata, 'NAME'), own(metadata, 'FLENT_VERSION')];
  return { test: typeof test === 'string' ? test : '', flentVersion: typeof version === 'string' ? version : null, series };
}

export interface StreamFigures {
  /** Begin of the first sample and end of the last, ns of the run. */
  readonly startNs: number;
  readonly endNs: number;
  /** Payload bytes by the samples until a time. */
  bytesUntil(tNs: number): number;
}

/** A stream by its samples; null when it has none. */
export function streamFigures({ raw }: SeriesData): StreamFigures | null {
  const samples = raw.flatMap(({ tNs, dur, val }) => (dur === null || val === null ? [] : [{ from: tNs - dur * 1e9, to: tNs, bps: val * 1e6 }]));
  const [first, last] = [samples[0], samples.at(-1)];
  if (first === undefined || last === undefined) return null;
  return {
    startNs: Math.round(first.from), endNs: Math.round(last.to),
    bytesUntil: (tNs) => Math.round(samples.reduce((sum, { from, to, bps }) => sum + (Math.max(0, Math.min(to, tNs) - from) / 8e9) * bps, 0)),
  };
}

export interface ProbeSample { readonly seq: number; readonly sentNs: number; /** ns; NaN: lost, or one-way delays not known. */ readonly rttNs: number; readonly forwardNs: number; readonly reverseNs: number }

const msToNs = (ms: number | null): number => (ms === null ? NaN : Math.round(ms * 1e6));

/** irtt's packets, in order, the lost ones too (it names them). */
export function irttSamples({ raw }: SeriesData): ProbeSample[] {
  return raw.flatMap(({ tNs, val, seq, owdUp, owdDown, lost }): ProbeSample[] => {
    if (seq === null) return [];
    if (lost || val === null) return [{ seq, sentNs: tNs, rttNs: NaN, forwardNs: NaN, reverseNs: NaN }];
    return [{ seq, sentNs: Math.round(tNs - val * 1e6), rttNs: msToNs(val), forwardNs: msToNs(owdUp), reverseNs: msToNs(owdDown) }];
  }).sort((a, b) => a.seq - b.seq);
}
