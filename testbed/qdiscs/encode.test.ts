/**
 * What we send is what tc sends: for each kind and many parameter sets, the bytes tc 6.1 puts in TCA_OPTIONS for `tcWords`
 * (seen by strace, in a network namespace of its own) are those of `encode`.
 */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { fq } from './fq.js';
import { encodeHtb, encodeHtbClass, htbClassWords, htbWords } from './htb.js';
import { encodeNetem, netemWords } from './netem.js';
import { encodePrio, prioWords } from './prio.js';
import type { QdiscContext, QueueParams } from './qdisc.js';
import { qdiscs } from './registry.js';
import { encodeTbf, tbfWords } from './tbf.js';
import { parameterSets } from '../testing/queue-parameters.js';

const context: QdiscContext = { mtuBytes: 1500, rateBps: 20e6 };

/** Why tc's bytes cannot be seen here, or undefined. */
function lacking(): string | undefined {
  const isolated = ['--net', ...(process.getuid?.() === 0 ? [] : ['--map-root-user'])];
  if (spawnSync('strace', ['-V']).status !== 0) return 'strace is not installed';
  if (!/iproute2-6\.1/.test(spawnSync('tc', ['-V'], { encoding: 'utf8' }).stdout ?? '')) return 'tc is not iproute2 6.1';
  return spawnSync('unshare', [...isolated, 'true']).status === 0 ? undefined : 'no network namespace can be made here';
}

/** The TCA_OPTIONS payload tc sends; empty when it sends none. */
export function bytesOfTc(object: 'qdisc' | 'class' | 'filter', words: readonly string[]): Buffer {
  const isolated = ['--net', ...(process.getuid?.() === 0 ? [] : ['--map-root-user'])];
  const run = spawnSync('unshare', [...isolated, 'strace', '-qq', '-xx', '-s', '20000', '-e', 'trace=sendmsg', 'tc', object, 'add', 'dev', 'lo', ...words], { encoding: 'utf8' });
  const lines = run.stderr.split('\n').filter((line) => line.startsWith('sendmsg') && /RTM_NEW/.test(line));
  const message = lines.at(-1);
  assert.ok(message, `tc sent nothing for ${words.join(' ')}: ${run.stderr}`);
  const options = /nla_type=(?:NLA_F_NESTED\|)?TCA_OPTIONS\}, (?:"((?:\\x[0-9a-f]{2})*)"|\[([^\]]*)\])/.exec(message);
  if (!options) return Buffer.alloc(0);
  assert.ok(options[1] !== undefined, `strace decoded the options: ${message}`);
  return Buffer.from(options[1].replaceAll('\\x', ''), 'hex');
}

describe('TCA_OPTIONS as iproute2 sends it', function () {
  this.timeout(120_000);
  const reason = lacking();
  before(function () {
    if (reason !== undefined) {
      console.log(`      skipped: ${reason}`);
      this.skip();
    }
  });

  for (const qdisc of qdiscs.values()) {
    if (qdisc.kind === 'dualpi2') continue; // tc 6.1 does not know it; see dualpi2.test.ts
    it(`${qdisc.kind} is set with the very bytes of tc`, () => {
      for (const params of parameterSets(qdisc, 12)) {
        const words = qdisc.tcWords(params, context);
        assert.equal(qdisc.encode(params, context).toString('hex'), bytesOfTc('qdisc', ['root', qdisc.kind, ...words]).toString('hex'), `${qdisc.kind} ${words.join(' ')} (${JSON.stringify(params)})`);
      }
    });
  }

  it('HTB and its class are set with the very bytes of tc', () => {
    assert.equal(encodeHtb().toString('hex'), bytesOfTc('qdisc', ['root', 'handle', '1:', 'htb', ...htbWords]).toString('hex'));
    for (const [rate, burst] of [[64e3, 1514], [20e6, 1514], [1_234_567, 9014], [100e6, 1514], [1e9, 1514], [40e9, 9014]] as const) {
      assert.equal(encodeHtbClass(rate, burst).toString('hex'), bytesOfTc('class', ['parent', '1:', 'classid', '1:1', 'htb', ...htbClassWords(rate, burst)]).toString('hex'), `${rate}`);
    }
  });

  it('TBF is set with the very bytes of tc', () => {
    for (const [rate, burst] of [[64e3, 1514], [20e6, 1514], [100e6, 9014], [40e9, 9014]] as const) {
      assert.equal(encodeTbf(rate, burst).toString('hex'), bytesOfTc('qdisc', ['root', 'tbf', ...tbfWords(rate, burst)]).toString('hex'), `${rate}`);
    }
    for (const [rate, burst, peakBps, packet] of [[20e6, 60_000, 50e6, 1514], [64e3, 1514, 128e3, 1514], [20e9, 1e6, 40e9, 9014]] as const) {
      const peak = { rateBps: peakBps, burstBytes: packet };
      assert.equal(encodeTbf(rate, burst, burst, peak).toString('hex'), bytesOfTc('qdisc', ['root', 'tbf', ...tbfWords(rate, burst, burst, peak)]).toString('hex'), `${rate} ${peakBps}`);
    }
  });

  it('netem is set with the very bytes of tc when its ticks can express the times', () => {
    const still = { delayNs: 0, jitterNs: 0, loss: 0, duplicate: 0, reorder: 0, limitPackets: 1000 };
    for (const wire of [
      { ...still, delayNs: 25e6 }, { ...still, delayNs: 5e6, jitterNs: 1e6, loss: 0.01, duplicate: 0.005, reorder: 0.1, limitPackets: 1234 },
      { ...still, loss: 1 }, { ...still, delayNs: 8000, limitPackets: 1 },
    ]) {
      assert.equal(encodeNetem(wire).toString('hex'), bytesOfTc('qdisc', ['root', 'netem', ...netemWords(wire)]).toString('hex'), JSON.stringify(wire));
    }
  });

  it('netem is told the ns that tc cannot say', () => {
    const wire = { delayNs: 12_345_678, jitterNs: 0, loss: 0, duplicate: 0, reorder: 0, limitPackets: 1000 };
    const sent = encodeNetem(wire);
    assert.equal(sent.subarray(0, 24).toString('hex'), bytesOfTc('qdisc', ['root', 'netem', ...netemWords(wire)]).toString('hex'));
    assert.equal(sent.readBigInt64LE(28), 12_345_678n);
  });

  it('prio is set with the very bytes of tc', () => {
    assert.equal(encodePrio(5, 4).toString('hex'), bytesOfTc('qdisc', ['root', 'prio', ...prioWords(5, 4)]).toString('hex'));
  });

  it("a DRR queue's classes and filter are set with the very bytes of tc", () => {
    for (const child of qdiscs.get('drr')!.children!({ flows: 2, quantum: 300, limit: 7 }, context)) {
      const sent = child.type === 'filter' ? child.options(0x100000) : child.options;
      const object = child.type === 'filter' ? bytesOfTc('filter', ['parent', '10:', 'protocol', 'all', 'prio', '1', 'handle', '1', child.kind, ...child.words(0x100000)])
        : child.type === 'class' ? bytesOfTc('class', ['parent', '10:', 'classid', '10:1', 'drr', ...child.words])
        : bytesOfTc('qdisc', ['parent', '10:1', child.kind, ...child.words]);
      assert.equal(sent.toString('hex'), object.toString('hex'));
    }
  });

  it('fq rounds its buckets up to a power of two as tc does', () => {
    const params: QueueParams = { buckets: 1000 };
    assert.equal(fq.encode(params, context).toString('hex'), bytesOfTc('qdisc', ['root', 'fq', 'buckets', '1000']).toString('hex'));
  });
});
