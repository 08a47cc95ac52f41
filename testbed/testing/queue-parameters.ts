/**
 * Parameter sets of qdiscs for tests: fixed ones that touch every parameter, and random valid ones drawn from the words and
 * ranges each schema accepts (with a fixed seed, so a failure repeats). All pass through the schema as a user's would.
 */

import fc from 'fast-check';
import type { Qdisc, QueueParams } from '../qdiscs/qdisc.js';

const time = (minUs: number, maxUs: number) => fc.integer({ min: minUs, max: maxUs }).map((us) => `${us}us`);
const packets = (min: number, max: number) => fc.integer({ min, max });
const bytes = (min: number, max: number) => fc.integer({ min, max });
const rate = fc.integer({ min: 64, max: 10_000_000 }).map((kbit) => `${kbit}kbit`);
const bool = fc.boolean();
const probability = fc.integer({ min: 1, max: 1000 }).map((n) => n / 10_000);
const some = (fields: Record<string, fc.Arbitrary<unknown>>): fc.Arbitrary<Record<string, unknown>> => fc.record(fields, { requiredKeys: [] });
const oneOf = (...words: readonly string[]): fc.Arbitrary<Record<string, unknown>> => fc.constantFrom({}, ...words.map((word) => ({ [word]: true })));

const arbitraries: Readonly<Record<string, fc.Arbitrary<Record<string, unknown>>>> = {
  pfifo: some({ limit: packets(1, 100_000) }),
  bfifo: some({ limit: bytes(2000, 10_000_000) }),
  pfifo_fast: fc.constant({}),
  // max is at least twice min and burst large enough, as tc demands
  red: fc.record({ min: fc.integer({ min: 5, max: 60 }), factor: fc.integer({ min: 2, max: 5 }), bytes: bool, probability, flags: fc.constantFrom({}, { ecn: true }, { ecn: true, harddrop: true }, { adaptive: true }, { ecn: true, nodrop: true }), limit: bool, bandwidth: fc.option(rate) })
    .map(({ min, factor, bytes: inBytes, probability: p, flags, limit, bandwidth }) => ({
      min: inBytes ? `${min * 1514}B` : `${min}p`, max: inBytes ? `${min * factor * 1514}B` : `${min * factor}p`, probability: p, ...flags,
      ...(limit ? { limit: inBytes ? `${min * factor * 3 * 1514}B` : `${min * factor * 3}p` } : {}), ...(bandwidth === null ? {} : { bandwidth }),
    })),
  choke: fc.record({ min: fc.integer({ min: 5, max: 100 }), factor: fc.integer({ min: 2, max: 5 }), probability, ecn: bool, bandwidth: fc.option(rate) })
    .map(({ min, factor, probability: p, ecn, bandwidth }) => ({ min, max: min * factor, limit: min * factor * 4, probability: p, ecn, ...(bandwidth === null ? {} : { bandwidth }) })),
  sfq: fc.tuple(some({ limit: packets(2, 1000), quantum: bytes(256, 9000), perturb: fc.integer({ min: 1, max: 60 }).map((s) => `${s}s`), divisor: fc.constantFrom(256, 1024, 4096), flows: fc.integer({ min: 1, max: 200 }), depth: fc.integer({ min: 1, max: 127 }), headdrop: bool }),
    fc.option(fc.record({ redflowlimit: bytes(60_000, 200_000), probability, ecn: bool, harddrop: bool }))).map(([plain, red]) => ({ ...plain, ...(red ?? {}) })),
  sfb: some({ rehash: fc.integer({ min: 1, max: 900 }).map((s) => `${s}s`), db: fc.integer({ min: 1, max: 100_000 }).map((ms) => `${ms}ms`), limit: packets(10, 10_000), max: packets(2, 100), target: packets(1, 100), increment: probability, decrement: probability, penalty_rate: fc.integer({ min: 1, max: 1000 }), penalty_burst: fc.integer({ min: 1, max: 1000 }) }),
  codel: some({ limit: packets(1, 10_000), target: time(100, 9000), interval: time(10_000, 1_000_000), ecn: bool, ce_threshold: time(100, 100_000) }),
  fq_codel: some({ limit: packets(1, 20_000), flows: fc.integer({ min: 1, max: 4096 }), target: time(100, 9000), interval: time(10_000, 1_000_000), quantum: bytes(256, 9000), ecn: bool, ce_threshold: time(100, 100_000), memory_limit: bytes(100_000, 64_000_000), drop_batch: fc.integer({ min: 1, max: 256 }), ce_threshold_selector: fc.constantFrom('0x01/0x01', '0x1/0x3', '2/3') }),
  pie: some({ limit: packets(1, 10_000), target: time(1000, 100_000), tupdate: time(1000, 100_000), alpha: fc.integer({ min: 1, max: 32 }), beta: fc.integer({ min: 1, max: 32 }), ecn: bool, bytemode: bool, dq_rate_estimator: bool }),
  fq_pie: some({ limit: packets(1, 10_000), flows: fc.integer({ min: 1, max: 4096 }), target: time(1000, 100_000), tupdate: time(1000, 100_000), alpha: fc.integer({ min: 1, max: 32 }), beta: fc.integer({ min: 1, max: 32 }), quantum: bytes(256, 9000), memory_limit: bytes(100_000, 64_000_000), ecn_prob: fc.integer({ min: 1, max: 99 }), ecn: bool, bytemode: bool, dq_rate_estimator: bool }),
  cake: fc.tuple(
    fc.oneof(some({ bandwidth: rate }), oneOf('unlimited')), fc.oneof(some({ rtt: time(100, 1_000_000) }), oneOf('datacentre', 'lan', 'metro', 'regional', 'internet', 'oceanic', 'satellite', 'interplanetary')),
    oneOf('besteffort', 'precedence', 'diffserv8', 'diffserv4', 'diffserv', 'diffserv3'), oneOf('flowblind', 'srchost', 'dsthost', 'hosts', 'flows', 'dual-srchost', 'dual-dsthost', 'triple-isolate'),
    oneOf('raw', 'conservative', 'ipoa-vcmux', 'ipoa-llcsnap', 'bridged-vcmux', 'bridged-llcsnap', 'pppoa-vcmux', 'pppoa-llc', 'pppoe-vcmux', 'pppoe-llcsnap', 'pppoe-ptm', 'bridged-ptm', 'ethernet', 'docsis'),
    oneOf('ether-vlan'), oneOf('atm', 'ptm', 'noatm'), oneOf('ack-filter', 'ack-filter-aggressive', 'no-ack-filter'), oneOf('autorate-ingress'),
    some({ nat: bool, wash: bool, 'split-gso': bool, ingress: bool, memlimit: bytes(100_000, 64_000_000), fwmark: fc.integer({ min: 1, max: 255 }), overhead: fc.integer({ min: -64, max: 256 }), mpu: fc.integer({ min: 1, max: 256 }) }),
  ).map((parts) => Object.assign({}, ...parts) as Record<string, unknown>),
  hhf: some({ limit: packets(1, 10_000), quantum: bytes(256, 9000), hh_limit: fc.integer({ min: 1, max: 2048 }), reset_timeout: time(1000, 1_000_000), admit_bytes: bytes(1000, 1_000_000), evict_timeout: time(1000, 5_000_000), non_hh_weight: fc.integer({ min: 1, max: 10 }) }),
  fq: some({ limit: packets(1, 20_000), flow_limit: packets(1, 1000), quantum: bytes(256, 9000), initial_quantum: bytes(256, 60_000), maxrate: rate, buckets: fc.integer({ min: 2, max: 65_536 }), pacing: bool, refill_delay: time(1000, 1_000_000), low_rate_threshold: rate, orphan_mask: fc.integer({ min: 1, max: 65_535 }), timer_slack: time(1, 100_000), ce_threshold: time(100, 100_000), horizon: time(1000, 10_000_000), horizon_drop: bool }),
  drr: some({ flows: fc.integer({ min: 1, max: 16 }), limit: packets(1, 10_000), quantum: bytes(256, 9000) }),
  dualpi2: fc.oneof(
    some({ limit: packets(1, 20_000), memlimit: bytes(100_000, 64_000_000), target: time(1000, 100_000), tupdate: time(1000, 100_000), alpha: fc.integer({ min: 1, max: 100 }).map((n) => n / 16), beta: fc.integer({ min: 1, max: 100 }).map((n) => n / 16), coupling_factor: fc.integer({ min: 1, max: 10 }), step_thresh: fc.oneof(time(100, 10_000), packets(1, 100).map((n) => `${n}p`)), min_qlen_step: fc.integer({ min: 0, max: 10 }), drop_on_overload: bool, drop_enqueue: bool, classic_protection: fc.integer({ min: 0, max: 100 }).map((n) => n / 100), any_ect: bool, split_gso: bool }),
    some({ max_rtt: time(10_000, 300_000), typical_rtt: time(1000, 10_000) }),
  ),
};

/** `count` random valid parameter sets (the first is the empty one where that is valid), as the compiler would put them into a plan. */
export function parameterSets(qdisc: Qdisc, count: number, seed = 1): QueueParams[] {
  const arbitrary = arbitraries[qdisc.kind];
  if (arbitrary === undefined) throw new Error(`no parameters to draw for ${qdisc.kind}: add them here`);
  return [{}, ...fc.sample(arbitrary, { numRuns: count, seed })].map((given) => qdisc.schema.parse(given) as QueueParams);
}
