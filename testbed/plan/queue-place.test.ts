/** Where queues go that a scenario does not place. */

import assert from 'node:assert/strict';
import { loadText } from '../scenario/load.js';
import { compile } from './compile.js';
import type { Plan } from './plan.js';

const scenario = (queue: string, more = ''): string => `name: placed
topology:
  routers: [R1, R2]
  links: { BL: { between: [R1, R2], rate: 20mbit, queue: ${queue} } }
  hosts: { S: { at: R1, rate: 100mbit }, D: { at: R2 } }
traffic: { bulk: { kind: bulk, from: S, to: D, rtt: 20ms } }
${more}`;
const compiled = (text: string, queues?: 'kernel' | 'daemon'): Plan => compile(loadText(text, 'placed.yaml'), { seed: 1, ...(queues ? { queues } : {}) });
const queueOf = (plan: Plan, link: string) => plan.links.find(({ name }) => name === link)!.forward.queue;

describe('a queue that the scenario does not place', () => {
  it('is in the kernel, or in user space where the run wants it, with the same parameters', () => {
    for (const text of ['codel', '{ kind: codel, target: 7ms }', 'pfifo', '{ kind: cake }']) {
      const [kernel, daemon] = [queueOf(compiled(scenario(text)), 'BL')!, queueOf(compiled(scenario(text), 'daemon'), 'BL')!];
      assert.deepEqual([kernel.in, daemon.in], ['kernel', 'daemon'], text);
      assert.deepEqual({ ...daemon, in: 'kernel' }, kernel);
    }
  });

  it('does not move when the scenario says so, when user space has no such queue, or on a sender\'s own link', () => {
    assert.deepEqual(queueOf(compiled(scenario('{ kind: codel, in: kernel }'), 'daemon'), 'BL'), { kind: 'codel', in: 'kernel', params: {} });
    assert.equal(queueOf(compiled(scenario('{ tc: "codel limit 100" }'), 'daemon'), 'BL')!.in, 'kernel');
    assert.equal(queueOf(compiled(scenario('codel'), 'daemon'), 'S')!.in, 'kernel');
    assert.equal(queueOf(compiled(scenario('{ kind: pi2 }')), 'BL')!.in, 'daemon', 'the kernel has none');
  });

  it('takes its events with it', () => {
    const plan = compiled(scenario('codel', 'events:\n  - { at: 10s, set BL.queue: { kind: codel, target: 9ms } }\n'), 'daemon');
    assert.deepEqual(plan.events[0]!.set.queue, { kind: 'codel', in: 'daemon', params: { target: 9e6 } });
  });
});
