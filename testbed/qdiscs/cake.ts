/**
 * CAKE (net/sched/sch_cake.c; iproute2 q_cake.c; tc-cake(8)): every keyword of tc is a key here; words without a value are written `word: true`.
 * Defaults: unlimited, internet (rtt 100ms), diffserv3, triple-isolate, nonat, nowash, split-gso, no-ack-filter, egress, no framing compensation.
 */

import { z } from 'zod';
import { attributeU32, attributeU64, parseAttributes, unsigned } from '../linux/attributes.js';
import { zRate, zTime } from '../units.js';
import { bytesPerSecond, microseconds, rateWord } from './parameters.js';
import type { Qdisc, QueueParams } from './qdisc.js';
import { zBytes, zCount } from './schemas.js';

/** [target, interval] µs. */
export const presets: Readonly<Record<string, readonly [number, number]>> = {
  datacentre: [5, 100], lan: [50, 1000], metro: [500, 10_000], regional: [1500, 30_000], internet: [5000, 100_000],
  oceanic: [15_000, 300_000], satellite: [50_000, 1_000_000], interplanetary: [50_000_000, 1_000_000_000],
};
export const tins: Readonly<Record<string, number>> = { diffserv3: 0, diffserv4: 1, diffserv: 1, diffserv8: 2, besteffort: 3, precedence: 4 };
export const isolation: Readonly<Record<string, number>> = {
  flowblind: 0, srchost: 1, dsthost: 2, hosts: 3, flows: 4, 'dual-srchost': 5, 'dual-dsthost': 6, 'triple-isolate': 7,
};
const cells: Readonly<Record<string, number>> = { noatm: 0, atm: 1, ptm: 2 };
export const ackFilters: Readonly<Record<string, number>> = { 'no-ack-filter': 0, 'ack-filter': 1, 'ack-filter-aggressive': 2 };
interface Framing { readonly overhead: number; readonly cell?: number; readonly mpu?: number }
const framings: Readonly<Record<string, Framing>> = {
  raw: { overhead: 0, cell: 0 }, conservative: { overhead: 48, cell: 1 },
  'ipoa-vcmux': { overhead: 8, cell: 1 }, 'ipoa-llcsnap': { overhead: 16, cell: 1 }, 'bridged-vcmux': { overhead: 24, cell: 1 }, 'bridged-llcsnap': { overhead: 32, cell: 1 },
  'pppoa-vcmux': { overhead: 10, cell: 1 }, 'pppoa-llc': { overhead: 14, cell: 1 }, 'pppoe-vcmux': { overhead: 32, cell: 1 }, 'pppoe-llcsnap': { overhead: 40, cell: 1 },
  'pppoe-ptm': { overhead: 30, cell: 2 }, 'bridged-ptm': { overhead: 22, cell: 2 }, ethernet: { overhead: 38, mpu: 84 }, docsis: { overhead: 18, cell: 0, mpu: 64 },
};
/** Words of which at most one may be given. */
const choices: readonly (readonly string[])[] = [
  ['bandwidth', 'unlimited'], ['rtt', ...Object.keys(presets)], Object.keys(tins), Object.keys(isolation), Object.keys(cells), Object.keys(framings), Object.keys(ackFilters),
  ['nat', 'nonat'], ['wash', 'nowash'], ['split-gso', 'no-split-gso'], ['ingress', 'egress'],
];
const switches = [['nat', 'nonat', 11], ['wash', 'nowash', 13], ['split-gso', 'no-split-gso', 17], ['ingress', 'egress', 15]] as const;
const bareWords = [
  'unlimited', 'autorate-ingress', ...Object.keys(presets), ...Object.keys(tins), ...Object.keys(isolation), ...Object.keys(cells), ...Object.keys(framings), 'ether-vlan',
  ...Object.keys(ackFilters), ...switches.flatMap(([on, off]) => [on, off]),
];

export const chosen = (table: Readonly<Record<string, unknown>>, params: QueueParams): string | undefined => Object.keys(table).find((word) => params[word] === true);
/** true, false or not said; `nat: false` says `nonat`, `nonat: true` too. */
export function switchOf(params: QueueParams, on: string, off: string): boolean | undefined {
  if (params[on] !== undefined) return params[on] === true;
  return params[off] === undefined ? undefined : params[off] !== true;
}
/** q_cake.c: a framing sets or adds overhead, `ether-vlan` adds 4, `overhead` replaces, `mpu` replaces, a cell word given by itself comes last. */
export function framingOf(params: QueueParams): { overhead?: number; cell?: number; mpu?: number; raw: boolean } {
  const word = chosen(framings, params);
  const framing = word === undefined ? undefined : framings[word];
  const cellWord = chosen(cells, params);
  const vlan = params['ether-vlan'] === true;
  const overhead = params['overhead'] !== undefined ? Number(params['overhead']) : framing || vlan ? (framing?.overhead ?? 0) + (vlan ? 4 : 0) : undefined;
  const cell = cellWord === undefined ? framing?.cell : cells[cellWord];
  const mpu = params['mpu'] === undefined ? framing?.mpu : Number(params['mpu']);
  return { ...(overhead === undefined ? {} : { overhead }), ...(cell === undefined ? {} : { cell }), ...(mpu ? { mpu } : {}), raw: word === 'raw' };
}

const totals = ['capacity_estimate', 'memory_used'] as const;
/** TCA_CAKE_TIN_STATS_… and the factor to our unit. */
const tinColumns: readonly (readonly [name: string, type: number, factor: number])[] = [
  ['sent', 2, 1], ['dropped', 4, 1], ['ack_drops', 6, 1], ['marked', 8, 1], ['backlog_bytes', 11, 1], ['peak_delay', 18, 1000], ['avg_delay', 19, 1000], ['base_delay', 20, 1000],
];
/** TC_CAKE_MAX_TINS */
const maxTins = 8;

function tinsOf(xstats: Buffer | undefined): { all: Map<number, Buffer>; tin: (Map<number, Buffer> | undefined)[] } {
  const all = xstats === undefined ? new Map<number, Buffer>() : parseAttributes(xstats);
  const list = all.get(10);
  const parsed = list === undefined ? new Map<number, Buffer>() : parseAttributes(list);
  // cake_dump_stats numbers the tins from 1.
  return { all, tin: Array.from({ length: maxTins }, (_, index) => { const one = parsed.get(index + 1); return one && parseAttributes(one); }) };
}

const valueKeys = {
  bandwidth: zRate.optional(), rtt: zTime.refine((ns) => ns >= 1000, { error: 'expected at least 1us' }).optional(), memlimit: zBytes.optional(), fwmark: zCount(0, 0xffffffff).optional(),
  overhead: zCount(-64, 256).optional(), mpu: zCount(0, 256).optional(),
};

export const cake: Qdisc = {
  kind: 'cake',
  hashes: true,
  schema: z.strictObject({ ...valueKeys, ...Object.fromEntries(bareWords.map((word) => [word, z.boolean().optional()])) }).superRefine((given, context) => {
    const params = given as Record<string, unknown>;
    for (const words of choices) {
      const both = words.filter((word) => params[word] !== undefined && params[word] !== false);
      if (both.length > 1) context.addIssue({ code: 'custom', path: [both[1]!], message: `expected only one of ${both.join(', ')}` });
    }
  }),
  encode: (params) => {
    const out: Buffer[] = [];
    const shaped = params['bandwidth'] !== undefined;
    const unlimited = params['unlimited'] === true;
    if (shaped || unlimited) out.push(attributeU64(2, BigInt(shaped ? bytesPerSecond(Number(params['bandwidth'])) : 0)));
    const tin = chosen(tins, params);
    if (tin !== undefined) out.push(attributeU32(3, tins[tin]!));
    const { overhead, cell, mpu, raw } = framingOf(params);
    if (cell !== undefined) out.push(attributeU32(4, cell));
    const flow = chosen(isolation, params);
    if (flow !== undefined) out.push(attributeU32(5, isolation[flow]!));
    if (overhead !== undefined) out.push(attributeU32(6, overhead));
    if (raw) out.push(attributeU32(12, 0));
    if (mpu !== undefined) out.push(attributeU32(14, mpu));
    const preset = chosen(presets, params);
    const interval = params['rtt'] !== undefined ? microseconds(Number(params['rtt'])) : preset === undefined ? 0 : presets[preset]![1];
    if (interval > 0) {
      out.push(attributeU32(7, interval));
      out.push(attributeU32(8, preset === undefined ? Math.max(Math.floor(interval / 20), 1) : presets[preset]![0]));
    }
    if (params['autorate-ingress'] === true) out.push(attributeU32(9, 1));
    else if (shaped || unlimited) out.push(attributeU32(9, 0));
    if (params['memlimit'] !== undefined) out.push(attributeU32(10, Number(params['memlimit'])));
    if (params['fwmark'] !== undefined) out.push(attributeU32(18, Number(params['fwmark'])));
    for (const [on, off, type] of switches) {
      const value = switchOf(params, on, off);
      if (value !== undefined) out.push(attributeU32(type, Number(value)));
    }
    const filter = chosen(ackFilters, params);
    if (filter !== undefined) out.push(attributeU32(16, ackFilters[filter]!));
    return Buffer.concat(out);
  },
  tcWords: (params) => {
    const out: string[] = [];
    const value = (key: string, word: (n: number) => string = String): void => { if (params[key] !== undefined) out.push(key, word(Number(params[key]))); };
    const bare = (...words: readonly string[]): void => { out.push(...words.filter((word) => params[word] === true)); };
    value('bandwidth', rateWord);
    bare('unlimited', 'autorate-ingress');
    value('rtt', (ns) => `${microseconds(ns)}us`);
    bare(...Object.keys(presets), ...Object.keys(tins), ...Object.keys(isolation), ...Object.keys(framings), 'ether-vlan', ...Object.keys(cells));
    value('overhead');
    value('mpu');
    value('memlimit');
    value('fwmark');
    for (const [on, off] of switches) {
      const chosenSwitch = switchOf(params, on, off);
      if (chosenSwitch !== undefined) out.push(chosenSwitch ? on : off);
    }
    bare(...Object.keys(ackFilters));
    return out;
  },
  state: [...totals, ...Array.from({ length: maxTins }, (_, tin) => tinColumns.map(([name]) => `tin${tin}_${name}`)).flat()],
  decodeState: (xstats) => {
    const { all, tin } = tinsOf(xstats);
    // capacity estimate: bytes/s to bits/s
    return [unsigned(all.get(2)) * 8, unsigned(all.get(4)), ...tin.flatMap((one) => tinColumns.map(([, type, factor]) => unsigned(one?.get(type)) * factor))];
  },
  decodeMarks: (xstats) => {
    const marks = tinsOf(xstats).tin.flatMap((one) => (one === undefined ? [] : [unsigned(one.get(8))]));
    return marks.length === 0 ? Number.NaN : marks.reduce((sum, n) => sum + n, 0);
  },
};
