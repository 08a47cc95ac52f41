/** A queue discipline as words on a command line. */

import assert from 'node:assert/strict';
import { parseQueueWords } from './queue-words.js';

describe('the words of a queue discipline', () => {
  it('are those of tc, with units, flags and negated flags', () => {
    assert.deepEqual(parseQueueWords('codel', '--queue'), { kind: 'codel', in: 'daemon', params: {} });
    assert.deepEqual(parseQueueWords('codel target 5ms interval=100ms ecn', '--queue').params, { target: 5e6, interval: 100e6, ecn: true });
    assert.deepEqual(parseQueueWords('fq_codel limit 1000 quantum 300 noecn', '--queue').params, { limit: 1000, quantum: 300, ecn: false });
    assert.deepEqual(parseQueueWords('pfifo', '--queue', { limit: '100' }).params, { limit: 100 });
    assert.deepEqual(parseQueueWords('pfifo limit 50', '--queue', { limit: '100' }).params, { limit: 50 });
  });

  it('are refused with what would be accepted', () => {
    assert.throws(() => parseQueueWords('codle', '--queue'), /codle.*expected one of .*codel/);
    assert.throws(() => parseQueueWords('codel targte 5ms', '--queue'), /codel has no parameter "targte"; expected .*target/);
    assert.throws(() => parseQueueWords('codel target', '--queue'), /target has no value/);
    assert.throws(() => parseQueueWords('codel target 5mss', '--queue'), /target: expected a time/);
    assert.throws(() => parseQueueWords('codel target -1ms', '--queue'), /target/);
    assert.throws(() => parseQueueWords('', '--queue'), /expected one of/);
    assert.throws(() => parseQueueWords('codel', '--queue', { quantum: '5' }), /codel has no quantum/);
  });
});
