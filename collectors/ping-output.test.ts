import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { PlanProbe } from '../testbed/plan/plan.js';
import { pingArguments, pingRows } from './ping.js';
import { parsePing } from './ping-output.js';

const sample = `PING 10.0.2.1 (10.0.2.1) from 10.0.1.1 : 72(100) bytes of data.
[1700000016.850002] 80 bytes from 10.0.2.1: icmp_seq=1 ttl=62 time=20.0 ms
[1700000016.950402] 80 bytes from 10.0.2.1: icmp_seq=3 ttl=62 time=120 ms
[1700000016.950502] 80 bytes from 10.0.2.1: icmp_seq=3 ttl=62 time=120 ms (DUP!)
From 10.0.1.2 icmp_seq=4 Destination Host Unreachable
[1700000016.960000] no answer yet for icmp_seq=5
[1700000017.000002] 80 bytes from 10.0.2.1: icmp_seq=2 ttl=62 time=0.031 ms

--- 10.0.2.1 ping statistics ---
6 packets transmitted, 3 received, 50% packet loss, time 2595ms
rtt min/avg/max/mdev = 20.000/20.000/20.000/0.000 ms, pipe 2
`;
const probe: PlanProbe = { id: 0, name: 'p', tool: 'ping', src: 's', dst: 'd', srcAddress: '10.0.1.1', dstAddress: '10.0.2.1', port: 7000, startNs: 0, stopNs: 1e9, intervalNs: 1e7, sizeBytes: 100 };

describe("What ping prints", () => {
  it('is read into answers and the number sent, duplicates and errors left out', () => {
    assert.deepEqual(parsePing(sample), {
      answers: [
        { seq: 0, receivedNs: 1700000016850002000n, rttNs: 20_000_000 },
        { seq: 2, receivedNs: 1700000016950402000n, rttNs: 120_000_000 },
        { seq: 1, receivedNs: 1700000017000002000n, rttNs: 31_000 },
      ],
      transmitted: 6,
    });
  });

  it('is counted on where its 16-bit sequence numbers wrap', () => {
    const line = (seq: number): string => `[1700000000.000000] 64 bytes from fd00::1: icmp_seq=${seq} ttl=62 time=1.5 ms\n`;
    const text = Array.from({ length: 70_000 }, (_, i) => ((i + 1) % 1000 === 0 || i % 65_536 > 65_500 ? line((i + 1) & 0xffff) : '')).join('');
    const { answers } = parsePing(text);
    assert.ok(answers.length > 100);
    answers.slice(1).forEach((answer, i) => assert.ok(answer.seq > answers[i]!.seq));
    assert.equal(answers.at(-1)!.seq, 69_999);
  });

  it('never makes the parser throw, and every cut or mangled line is left out or read right', () => {
    const good = new Map(parsePing(sample).answers.map((answer) => [answer.seq, answer]));
    fc.assert(fc.property(fc.nat(sample.length), fc.nat(sample.length), (from, to) => {
      for (const answer of parsePing(sample.slice(from, to)).answers) {
        const whole = good.get(answer.seq);
        // A line cut at its end may lose digits, never gain any.
        if (whole && answer.receivedNs !== whole.receivedNs) assert.ok(from > 0);
        assert.ok(Number.isInteger(answer.seq) && answer.seq >= 0);
      }
    }), { numRuns: 2000 });
    fc.assert(fc.property(fc.string({ maxLength: 400 }), (text) => { parsePing(text); }));
    fc.assert(fc.property(fc.array(fc.tuple(fc.nat(sample.length - 1), fc.integer({ min: 0, max: 255 })), { maxLength: 20 }), (changes) => {
      const bytes = Buffer.from(sample, 'latin1');
      for (const [at, value] of changes) bytes[at] = value;
      for (const { seq, rttNs } of parsePing(bytes.toString('latin1')).answers) assert.ok(seq >= 0 && !(rttNs < 0));
    }), { numRuns: 2000 });
  });

  it('becomes rows whose lost packets stand between their neighbours', () => {
    const { answers } = parsePing(['1 ttl=62 time=20.0', '5 ttl=62 time=20.0'].map((rest, i) => `[170000000${i}.020000] 80 bytes from 10.0.2.1: icmp_seq=${rest} ms`).join('\n'));
    const rows = pingRows(answers, 7, 1_700_000_000_000_000_000n, { ...probe, stopNs: 2e9 }, 10e9);
    assert.deepEqual(rows.map(({ seq, sentNs }) => [seq, sentNs]), [[0, 0], [1, 0.25e9], [2, 0.5e9], [3, 0.75e9], [4, 1e9], [5, 1.01e9], [6, 1.02e9]]);
    assert.deepEqual(rows.map(({ rttNs }) => Number.isNaN(rttNs)), [false, true, true, true, false, true, true]);
  });

  it('leaves out packets still on their way when the run ended, and those sent after the end of the probe', () => {
    const { answers } = parsePing('[1700000000.320000] 80 bytes from 10.0.2.1: icmp_seq=1 ttl=62 time=300 ms');
    const rows = (endedNs: number, stopNs: number) => pingRows(answers, 40, 1_700_000_000_000_000_000n, { ...probe, stopNs }, endedNs).length;
    assert.equal(rows(0.7e9, 1e9), 8); // sent at 20, 30, … 90 ms, more than twice 300 ms before 700 ms
    assert.equal(rows(10e9, 1e9), 40);
    assert.equal(rows(10e9, 0.1e9), 9);
  });

  it('is asked for with the exact IP packet size', () => {
    const size = (args: readonly string[]): string => args[args.indexOf('-s') + 1]!;
    assert.equal(size(pingArguments(probe)), '72');
    assert.equal(size(pingArguments({ ...probe, srcAddress: 'fd00::1', dstAddress: 'fd00::2' })), '52');
    assert.throws(() => pingArguments({ ...probe, sizeBytes: 40 }), /44B or more/);
  });
});
