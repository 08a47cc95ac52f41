import assert from 'node:assert/strict';
import { z } from 'zod';
import { resolveRed } from './red.js';
import { qdiscs } from './registry.js';

const context = { mtuBytes: 1500, rateBps: 20e6 };
const messages = (kind: string, given: unknown): string[] => {
  const result = qdiscs.get(kind)!.schema.safeParse(given);
  return result.success ? [] : result.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`);
};

describe('Parameters of queue disciplines', () => {
  it('have a JSON Schema each, for editors', () => {
    for (const qdisc of qdiscs.values()) assert.equal(z.toJSONSchema(qdisc.schema, { io: 'input' }).type, 'object', qdisc.kind);
  });

  it('refuse unknown keys, wrong units and impossible combinations with what would be accepted', () => {
    assert.match(messages('codel', { tarqet: '5ms' }).join(), /tarqet/);
    assert.match(messages('codel', { target: '5' }).join(), /target: .*5ms/);
    assert.match(messages('red', { min: '60p', max: '20p' }).join(), /min: expected min below max/);
    assert.match(messages('red', { nodrop: true }).join(), /ecn: true/);
    assert.match(messages('cake', { besteffort: true, diffserv8: true }).join(), /only one of/);
    assert.match(messages('sfq', { ecn: true }).join(), /redflowlimit/);
    assert.match(messages('sfq', { divisor: 1000 }).join(), /power of two/);
    assert.match(messages('dualpi2', { max_rtt: '100ms', target: '15ms' }).join(), /target/);
    assert.match(messages('pfifo', { limit: 0 }).join(), /above 0/);
  });

  it("takes RED's thresholds in packets of avpkt, a full packet unless told", () => {
    const plain = resolveRed({ min: '20p', max: '60p', probability: 0.02 }, context);
    assert.deepEqual([plain.minBytes, plain.maxBytes, plain.limitBytes, plain.burstPackets, plain.bandwidthBps], [20 * 1514, 60 * 1514, 240 * 1514, 33, 20e6]);
    assert.equal(resolveRed({ min: '20p', max: '60p', avpkt: 1000 }, context).minBytes, 20_000);
    assert.equal(resolveRed({ max: 90_000 }, context).minBytes, 30_000);
  });

  it("refuses a RED burst that tc would refuse, with the smallest that works", () => {
    assert.throws(() => qdiscs.get('red')!.encode({ min: '20p', max: '60p', burst: 3 }, context), /burst of at least 21/);
  });
});
