/**
 * `topology.hosts`: end hosts, one or `count` of them, each with an access link of its own to a router; and the
 * lists by which traffic and probes name them: `S1`, `S1[0]`, `S1[0..1]`, or a list of these.
 */

import { z } from 'zod';
import { linkFields, zMtu } from './link.js';
import { zName } from './names.js';

/** Enough for any test bed; 4000 hosts are 4000 namespaces. */
export const maxHosts = 4000;

export const zHost = z.strictObject({
  at: zName.meta({ description: 'Router the access link goes to.' }),
  count: z.int({ error: `expected a whole number from 1 to ${maxHosts}` }).min(1, { error: `expected a whole number from 1 to ${maxHosts}` })
    .optional().meta({ description: 'Number of hosts, named NAME[0] … NAME[count-1], each with an access link. Left out: one host, named NAME.' }),
  ...linkFields('host → router is forward'),
  mtu: zMtu.optional().meta({ description: 'IP MTU of the access link, bytes. Default: topology.mtu.' }),
});
export type HostGroup = z.output<typeof zHost>;

/** `S1[0..1]`; first and last are null for all of them. */
export interface HostRange { readonly group: string; readonly first: number | null; readonly last: number | null; readonly text: string }

const rangePattern = /^\s*([A-Za-z][A-Za-z0-9_-]*)(?:\[\s*(\d{1,6})\s*(?:\.\.\s*(\d{1,6})\s*)?\])?\s*$/;
const listWords = 'hosts such as S1, S1[0], S1[0..1], or a list of these';
const zRange = z.string({ error: `expected ${listWords}` }).regex(rangePattern, { error: `expected ${listWords}` }).transform((text): HostRange => {
  const match = rangePattern.exec(text)!;
  const first = match[2] === undefined ? null : Number(match[2]);
  return { group: match[1]!, first, last: match[3] === undefined ? first : Number(match[3]), text: text.trim() };
});
export const zHostList = z.union([zRange.transform((range) => [range]), z.array(zRange, { error: `expected ${listWords}` }).min(1, { error: `expected ${listWords}` }).max(1000)]);
