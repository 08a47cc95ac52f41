/**
 * A test of flent (the FLExible Network Tester, flent.org) between hosts: `test` names one of those flent brings. Each
 * sending host runs flent once (for each of its `flows`), with all its receiving hosts as flent's hosts. The streams
 * and pings it consists of are in flent's own definition of the test; plan/tests.ts makes the plan's flows and
 * probes of them.
 */

import { z } from 'zod';
import { zTime } from '../../units.js';
import { commonFields, defineKind, tcpFields } from './kind.js';

const testWords = 'the name of a test flent has (flent --list-tests), such as rrul or tcp_nup';
const secondsWords = 'whole seconds up to 24h, such as 20s';
const stepWords = 'a multiple of 10ms up to 10s, such as 200ms';
const parameterWords = 'a number or a text of letters, digits and _ . , : ; + - / without spaces';
const second = 1e9;
const inWholeSeconds = (least: number) => (ns: number): boolean => ns % second === 0 && ns >= least * second && ns <= 86_400 * second;

/** flent makes command lines of parameters: no blanks or quotes, so that a value stays one word; no leading -, so that it is no option. */
const zParameter = z.union([
  z.number(), z.boolean(),
  z.string().regex(/^(?:[A-Za-z0-9_+.][A-Za-z0-9_.,:;+/-]{0,199})?$/, { error: `expected ${parameterWords}` }),
], { error: `expected ${parameterWords}` });

export const flent = defineKind({
  kind: 'flent',
  transport: 'tcp',
  bulk: true,
  schema: z.strictObject({
    kind: z.literal('flent').meta({ description: 'A test of flent; see flent.md.' }),
    ...commonFields,
    ...tcpFields,
    test: z.string({ error: `expected ${testWords}` }).regex(/^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/, { error: `expected ${testWords}` }).meta({ description: 'Name of the test: rrul, tcp_nup, rtt_fair, … (flent --list-tests).' }),
    length: zTime.refine(inWholeSeconds(1), { error: `expected ${secondsWords}` }).optional().meta({ description: "Length of the streams, whole seconds (flent's -l). Default: as long as fits before stop." }),
    delay: zTime.refine(inWholeSeconds(0), { error: `expected ${secondsWords}` }).optional().meta({ description: "Pings alone before and after the streams, whole seconds (flent's -d). Default: 5s." }),
    step: zTime.refine((ns) => ns >= 10e6 && ns <= 10 * second && ns % 10e6 === 0, { error: `expected ${stepWords}` }).optional().meta({ description: "Interval of pings and of throughput samples (flent's -s). Default: 200ms." }),
    parameters: z.record(z.string().regex(/^[a-z][a-z0-9_-]{0,63}$/, { error: 'expected the name of a test parameter, such as upload_streams' }), zParameter).optional()
      .meta({ description: "Parameters of the test (flent's --test-parameter): { upload_streams: 4 }." }),
  }),
  draft: () => [], // plan/tests.ts
});
