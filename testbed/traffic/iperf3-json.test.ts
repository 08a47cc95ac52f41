import assert from 'node:assert/strict';
import fc from 'fast-check';
import { iperf3Figures, parseIperf3Output } from './iperf3-json.js';

const document = {
  start: { version: 'iperf 3.12', connected: [{ socket: 5, local_port: 20000 }] },
  intervals: [{ sum: { bytes: 100, bits_per_second: 800.5 } }],
  end: { sum_sent: { bytes: 12345, retransmits: 7, seconds: 10.5 }, sum_received: { bytes: 12000 } },
};
const text = JSON.stringify(document, null, '\t');

describe('iperf3\'s output', () => {
  it('is read as JSON when it is JSON', () => {
    fc.assert(fc.property(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 6 })), (value) => {
      const again = JSON.parse(JSON.stringify(value)) as object; // −0 has no JSON of its own
      const parsed = parseIperf3Output(JSON.stringify(value, null, 1));
      assert.deepEqual(parsed.documents, [again]);
      assert.deepEqual(parsed.problems, []);
    }));
  });

  it('gives sender and receiver figures separately', () => {
    assert.deepEqual(iperf3Figures(parseIperf3Output(text).documents), { error: null, version: 'iperf 3.12', bytesSent: 12345, bytesReceived: 12000, retransmits: 7, seconds: 10.5, packets: null, lostPackets: null });
  });

  it('is read although a warning stands before it and a second document after it', () => {
    const { documents, problems } = parseIperf3Output(`warning: this system does not seem to support IPv6\n${text}\n{"error": "interrupt - the client has terminated"}\n`);
    assert.equal(documents.length, 2);
    assert.equal(problems.length, 2);
    const figures = iperf3Figures(documents);
    assert.equal(figures.bytesSent, 12345);
    assert.equal(figures.error, 'interrupt - the client has terminated');
  });

  it('is read although it has nan and inf for numbers', () => {
    const { documents, problems } = parseIperf3Output('{"end": {"sum_sent": {"bytes": 5, "bits_per_second": -nan, "x": inf, "seconds": 1}}}');
    assert.deepEqual(documents, [{ end: { sum_sent: { bytes: 5, bits_per_second: null, x: null, seconds: 1 } } }]);
    assert.ok(problems.length > 0);
  });

  it('gives what is there when it is cut off anywhere', () => {
    for (let cut = 1; cut < text.length; cut++) {
      const { documents, problems } = parseIperf3Output(text.slice(0, cut));
      assert.equal(documents.length, 1, `cut at ${cut}`);
      assert.ok(problems.length > 0, `cut at ${cut}`);
    }
    const beforeReceived = parseIperf3Output(text.slice(0, text.indexOf('"sum_received"')));
    assert.equal(iperf3Figures(beforeReceived.documents).bytesSent, 12345);
  });

  it('never throws and never hangs, whatever it is', () => {
    const pieces = fc.array(fc.oneof(fc.constantFrom('{', '}', '[', ']', '"', ':', ',', '\\', '\\u12', 'nan', '-inf', 'true', '1e5', '"end"', '"error"', ' ', '\n', '{"a":', '['.repeat(200), '{"a":'.repeat(200)), fc.string()), { maxLength: 60 });
    fc.assert(fc.property(pieces, (parts) => {
      const { documents } = parseIperf3Output(parts.join(''));
      iperf3Figures(documents);
    }), { numRuns: 2000 });
  });

  it('has no figures from a key that only looks like one of an object\'s own', () => {
    assert.equal(iperf3Figures(parseIperf3Output('{"end": {"constructor": 1}}').documents).bytesSent, null);
    assert.deepEqual(parseIperf3Output('{"__proto__": {"x": 1}}').documents.map((one) => Object.keys(one)), [['__proto__']]);
  });
});
