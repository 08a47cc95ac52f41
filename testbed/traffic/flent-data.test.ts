import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import { gunzipSync, gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { projectFile } from '../../kernel/project.js';
import { irttSamples, readFlentData, streamFigures } from './flent-data.js';

/** rrul for 2 s through 20 Mbit/s with fq_codel, 20 ms, in a guest in virtual time; run time 0 was at 1700000004 s. */
const file = fs.readFileSync(projectFile('testbed', 'traffic', 'fixtures', 'rrul-2s.flent.gz'));
const start = 1_700_000_004_000_000_000n;
const s = 1e9;

describe('a data file of flent', () => {
  const data = readFlentData(file, start);

  it('has the streams\' own totals and samples that agree with them', () => {
    assert.equal(data.test, 'rrul');
    for (const name of ['TCP upload BE', 'TCP upload BK', 'TCP upload CS5', 'TCP upload EF', 'TCP download BE', 'TCP download EF']) {
      const series = data.series.get(name)!;
      assert.equal(series.congestionControl, 'cubic');
      assert.ok(series.retransmits! > 0, name);
      const { startNs, endNs, bytesUntil } = streamFigures(series)!;
      assert.ok(startNs > 0 && startNs < 0.2 * s && endNs > 2 * s && endNs < 2.3 * s, `${name}: ${startNs} to ${endNs}`);
      // netperf's last sample ends when it stops to send; what is under way then is in its total only.
      const total = bytesUntil(Infinity);
      assert.ok(Math.abs(total / series.bytesReceived! - 1) < 0.2, `${name}: ${total} of ${series.bytesReceived}`);
      assert.ok(bytesUntil(1 * s) > 0.2 * total && bytesUntil(1 * s) < 0.8 * total);
      assert.equal(bytesUntil(0), 0);
    }
  });

  it('has irtt\'s packets with one-way delays that add up to the round trip, sent at its interval', () => {
    const samples = irttSamples(data.series.get('Ping (ms) UDP EF')!);
    assert.equal(samples.length, 20);
    for (const [i, { seq, sentNs, rttNs, forwardNs, reverseNs }] of samples.entries()) {
      assert.equal(seq, i);
      assert.ok(rttNs > 20e6 && rttNs < 60e6, `${rttNs}`);
      assert.ok(Math.abs(forwardNs + reverseNs - rttNs) < 5000);
      if (i > 0) assert.ok(Math.abs(sentNs - samples[0]!.sentNs - i * 100e6) < 2e6);
    }
  });

  it('is refused with a reason when it is cut off, not gzip or not flent\'s, and never read wrongly', () => {
    assert.throws(() => readFlentData(file.subarray(0, 5000), start), /not a whole data file of flent/);
    assert.throws(() => readFlentData(Buffer.from('{}'), start), /not a whole data file of flent/);
    assert.throws(() => readFlentData(gzipSync('{"version": 2, "metadata": {}}'), start), /raw values \(version 2/);
    const parsed = JSON.parse(gunzipSync(file).toString()) as { raw_values: Record<string, unknown> };
    fc.assert(fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
      const { series } = readFlentData(gzipSync(JSON.stringify({ ...parsed, raw_values: { ...parsed.raw_values, 'TCP upload BE': value } })), start);
      const each = series.get('TCP upload BE')!;
      streamFigures(each);
      irttSamples(each);
    }), { numRuns: 100 });
  });

  it('names the packets irtt lost', () => {
    const lossy = gzipSync(JSON.stringify({ version: 4, metadata: { NAME: 'x', SERIES_META: {} }, raw_values: { p: [{ seq: 1, t: 1_700_000_005, lost: true }, { seq: 0, t: 1_700_000_004.5, val: 40, owd_up: 10, owd_down: 30 }] } }));
    assert.deepEqual(irttSamples(readFlentData(lossy, start).series.get('p')!), [
      { seq: 0, sentNs: 460e6, rttNs: 40e6, forwardNs: 10e6, reverseNs: 30e6 }, { seq: 1, sentNs: 1e9, rttNs: NaN, forwardNs: NaN, reverseNs: NaN },
    ]);
  });
});
