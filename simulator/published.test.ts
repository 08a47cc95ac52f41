import assert from 'node:assert/strict';
import { dumbbell, queue } from './fixture.js';
import { PublishedRuns, allowed, articleFigures, isMet, readPublished, seedsOf } from './published-figures.js';
import { withRun } from './testing.js';

describe("The figures of an article's C simulator, 2026 (model: classic)", () => {
  const tailSeeds = Number(process.env['TESTBED_SEEDS'] ?? 20);
  const runs = new PublishedRuns();
  for (const figure of articleFigures()) {
    const { workload, queue: name, unit, published, relation, missed } = figure;
    const title = `${workload}, ${name}: ${figure.figure} ${relation === 'below' ? 'below ' : ''}${published} ${unit}`;
    if (missed !== undefined) {
      it(`${title} (missed: ${missed})`);
      continue;
    }
    it(title, () => {
      const { median, ci95 } = runs.over(figure, seedsOf(figure, tailSeeds));
      assert.ok(isMet(figure, median), `${median.toFixed(2)} [${ci95?.map((bound) => bound.toFixed(2)).join(' ')}] ${unit}, published ${published} ± ${allowed(figure).toFixed(2)}`);
    }).timeout(240_000);
  }
});

describe('Runs of Linux 6.12 (model: linux)', () => {
  interface Run { readonly cc: string; readonly flows: number; readonly goodputMbps: number; readonly packets: number; readonly drops: number; readonly pingMeanMs: number }
  for (const { cc, flows, goodputMbps, packets, drops, pingMeanMs } of readPublished<{ readonly runs: readonly Run[] }>('linux-6.12-codel-dumbbell').runs) {
    it(`${flows} ${cc} through CoDel: goodput and packets within 1.5 %, drops within 20 % or 5, mean ping within 0.5 ms`, () => {
      const plan = dumbbell({
        rateBps: 20e6, queue: queue('codel', { limit: 1000 }), pairs: flows, rttNs: 50e6, durationNs: 62e9, flows: Array.from({ length: flows }, () => ({ cc })),
        probes: [{ tool: 'ping', startNs: 10e9, stopNs: 60e9, intervalNs: 100e6, sizeBytes: 84 }],
      });
      withRun(plan, (result) => {
        const link = result.summary.links.find(({ name }) => name === 'BL1')!;
        const goodput = (result.flows.reduce((sum, flow) => sum + flow.bytes!, 0) * 8) / 62e6;
        assert.ok(Math.abs(goodput / goodputMbps - 1) < 0.015, `goodput ${goodput.toFixed(2)} Mbit/s, Linux ${goodputMbps}`);
        assert.ok(Math.abs(link.sentPackets / packets - 1) < 0.015, `${link.sentPackets} packets, Linux ${packets}`);
        assert.ok(Math.abs(link.drops - drops) <= Math.max(5, 0.2 * drops), `${link.drops} drops, Linux ${drops}`);
        const rtts = result.rows('probes.rec').map((row) => row['rtt']! / 1e6).filter((rtt) => !Number.isNaN(rtt));
        const mean = rtts.reduce((a, b) => a + b, 0) / rtts.length;
        assert.ok(Math.abs(mean - pingMeanMs) < 0.5, `mean ping ${mean.toFixed(2)} ms, Linux ${pingMeanMs}`);
      });
    }).timeout(60_000);
  }
});
