import assert from 'node:assert/strict';
import { addressHex } from '../testbed/linux/inet-diag.js';
import type { Plan, PlanDirection, PlanLink } from '../testbed/plan/plan.js';
import { bottlenecksByNode, routeLookup } from './routing.js';

const direction = (name: string, queued: 'kernel' | 'daemon' | null): PlanDirection => ({
  name, rateBps: queued ? 1e7 : null, shaper: queued ? 'htb' : null, overheadBytes: 14, queue: queued ? { kind: 'codel', in: queued, params: {} } : null, wire: [],
});
const link = (name: string, role: PlanLink['role'], a: string, da: string, aa: string, b: string, db: string, ab: string, queues: readonly ['kernel' | 'daemon' | null, 'kernel' | 'daemon' | null]): PlanLink => ({
  name, role, mtuBytes: 1500, a: { node: a, device: da, addresses: [aa] }, b: { node: b, device: db, addresses: [ab] }, forward: direction(name, queues[0]), reverse: direction(`${name}.reverse`, queues[1]),
});
const plan = {
  nodes: [
    { name: 'R1', role: 'router', netns: 'R1', routes: [{ to: '10.0.3.0/24', via: '10.0.9.2', device: 'bl' }, { to: '10.0.3.128/25', via: '10.0.8.2', device: 'other' }, { to: '0.0.0.0/0', via: '10.0.9.2', device: 'bl' }, { to: 'fd00:3::/64', via: 'fd00:9::2', device: 'bl' }] },
  ],
  links: [
    link('BL', 'bottleneck', 'R1', 'bl', '10.0.9.1/30', 'R2', 'bl', '10.0.9.2/30', ['kernel', 'daemon']),
    link('B2', 'bottleneck', 'R3', 'x', '10.0.8.2/30', 'R1', 'other', '10.0.8.1/30', ['kernel', 'kernel']),
    link('S', 'access', 'S', 'eth0', '10.0.1.1/24', 'R1', 's', '10.0.1.2/24', [null, null]),
  ],
} as unknown as Plan;

describe('Routes of a plan', () => {
  it('choose the longest prefix, connected networks included', () => {
    const deviceOf = routeLookup(plan, 'R1');
    const by = (address: string) => deviceOf(addressHex(address));
    assert.equal(by('10.0.3.5'), 'bl');
    assert.equal(by('10.0.3.200'), 'other');
    assert.equal(by('10.0.1.77'), 's');
    assert.equal(by('10.0.9.2'), 'bl');
    assert.equal(by('203.0.113.9'), 'bl');
    assert.equal(by('fd00:3::7'), 'bl');
    assert.equal(by('fd00:4::7'), undefined);
    assert.equal(by('10.0.1.2'), undefined, 'its own address goes nowhere');
  });

  it('lead into the bottlenecks whose queue is in the kernel, by the node that sends into them', () => {
    const byNode = bottlenecksByNode(plan);
    assert.deepEqual([...byNode].map(([node, list]) => [node, list.map((one) => one.direction.name)]), [['R1', ['BL', 'B2.reverse']], ['R3', ['B2']]]);
    assert.equal(byNode.get('R1')![1]!.from.device, 'other');
  });
});
