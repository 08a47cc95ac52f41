import assert from 'node:assert/strict';
import { realtimeAt } from '../testbed/agent/clocks.js';
import type { AgentContext } from '../testbed/agent/context.js';
import { Loop } from '../testbed/agent/loop.js';
import { CLOCK_MONOTONIC, clockNs } from '../testbed/linux/libc.js';
import type { PlanProbe } from '../testbed/plan/plan.js';
import { prober } from './probe.js';
import { isLost } from './probe-tool.js';

const probe: PlanProbe = { id: 3, name: 'p', tool: 'builtin', src: 's', dst: 'd', srcAddress: '127.0.0.1', dstAddress: '127.0.0.2', port: 47_123, startNs: 0, stopNs: 1e8, intervalNs: 1e6, sizeBytes: 100 };
function contextOf(loop: Loop): AgentContext {
  return {
    loop, clock: 'real', endNs: 1e8, now: () => loop.now(),
    realtimeAtStart: realtimeAt(loop.originNs, 'real'),
    inNode: (_node: string, call: () => unknown) => call(), finding: () => undefined,
  } as unknown as AgentContext; // the prober needs no more of it
}

describe('The built-in prober', () => {
  it("measures in real time by the kernel's receive time stamps", () => {
    const loop = new Loop(clockNs(CLOCK_MONOTONIC) + 1e7, 'real');
    const context = contextOf(loop);
    const rows: number[][] = [];
    const tool = prober(context, [probe], (...row) => rows.push(row));
    tool.start();
    loop.run(3e8);
    tool.stop();
    loop.close();
    assert.ok(rows.length > 0);
    for (const [id, , sent, rtt, forward, reverse] of rows as [number, number, number, number, number, number][]) {
      assert.equal(id, 3);
      assert.ok(sent >= 0);
      assert.ok(forward > -1e6 && reverse > -1e6 && Math.abs(rtt - forward - reverse) < 1, `${forward} ${reverse} ${rtt}`);
    }
  });

  it('refuses packets too small for a sequence number, and a port that is taken, with what to change', () => {
    const loop = new Loop(clockNs(CLOCK_MONOTONIC), 'real');
    assert.throws(() => prober(contextOf(loop), [{ ...probe, sizeBytes: 30 }], () => undefined), /probe p: .*32B or more/);
    const first = prober(contextOf(loop), [probe], () => undefined);
    first.start();
    const second = prober(contextOf(loop), [probe], () => undefined);
    assert.throws(() => second.start(), /probe p: UDP port 47123 of 127\.0\.0\.1 \(s\) is in use/);
    second.stop();
    first.stop();
    loop.close();
  });

  it('calls a probe lost only when its answer had time to come', () => {
    assert.equal(isLost(0, 1e9, 4e8), true);
    assert.equal(isLost(3e8, 1e9, 4e8), false);
    assert.equal(isLost(3e8, 1e9, 0), true);
  });
});
