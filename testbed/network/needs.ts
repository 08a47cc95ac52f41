/** Which features of the kernel a plan's network uses: taken from the very steps that make it, so that none is forgotten. */

import type { Plan, PlanLink, PlanQueue } from '../plan/plan.js';
import { qdiscs } from '../qdiscs/registry.js';
import { layoutOf, wireNode, type Step } from './steps.js';

export interface NetworkNeed {
  readonly type: 'link' | 'qdisc' | 'classifier' | 'redirect';
  /** Kernel's name: `veth`, `fq_codel`, `u32`. */
  readonly name: string;
  /** Who asks for it, in the scenario's words: `queue of BL1`. */
  readonly by: string;
  /** Where the scenario says so; absent for what every network has. */
  readonly place?: readonly string[];
  /** For a raw queue: tc's own words. */
  readonly words?: readonly string[];
}

/** A queue in the daemon stays what it is (its link then needs nothing of traffic control); a kind that is not in the registry is asked for by its name. */
function asked(queue: PlanQueue | null): PlanQueue | null {
  if (queue === null) return null;
  if (queue.in === 'daemon') return queue;
  return queue.kind === 'raw' || qdiscs.has(queue.kind) ? queue : { kind: 'raw', in: 'kernel', params: {}, tc: [queue.kind] };
}
const askedOf = (link: PlanLink): PlanLink => ({
  ...link, forward: { ...link.forward, queue: asked(link.forward.queue) }, reverse: { ...link.reverse, queue: asked(link.reverse.queue) },
});

/** Where the scenario describes a cable: `topology.links.BL1`, `topology.hosts.S1` for the access link of `S1[0]`. */
export function placeOfLink(plan: Plan, link: PlanLink): readonly string[] {
  const ofHost = plan.nodes.some((node) => node.role === 'host' && node.name === link.name);
  return ofHost ? ['topology', 'hosts', link.name.replace(/\[\d+\]$/, '')] : ['topology', 'links', link.name];
}

/** Each once, in the order of the steps. @throws UserError for queues whose parameters cannot be */
export function networkNeeds(plan: Plan): readonly NetworkNeed[] {
  const layout = layoutOf({ ...plan, links: plan.links.map(askedOf) });
  /** What a device is for, by node and device. */
  const uses = new Map<string, { readonly link: PlanLink; readonly name: string; readonly wire: boolean }>();
  for (const { name, link, bottleneck, wire } of layout.directions.values()) {
    const use = { link, name };
    if (bottleneck !== null) uses.set(`${bottleneck.node} ${bottleneck.device}`, { ...use, wire: false });
    for (const part of wire) uses.set(`${wireNode} ${part.device}`, { ...use, wire: true });
  }
  const out = new Map<string, NetworkNeed>();
  const add = (type: NetworkNeed['type'], name: string, step: Step, words?: readonly string[]): void => {
    const key = JSON.stringify([type, name, words]);
    if (out.has(key)) return;
    const on = step.do === 'redirect' ? [step.device, step.to.device] : 'device' in step ? [step.device] : [];
    const use = 'node' in step ? on.map((device) => uses.get(`${step.node} ${device}`)).find((found) => found !== undefined) : undefined;
    if (use === undefined) { out.set(key, { type, name, by: 'every run', ...(words ? { words } : {}) }); return; }
    const shaper = name === 'htb' || name === 'tbf';
    const what = use.wire ? 'delay' : shaper ? 'shaper' : 'queue';
    const place = [...placeOfLink(plan, use.link), ...(use.wire ? [] : [shaper ? 'shaper' : 'queue'])];
    out.set(key, { type, name, by: `${what} of ${use.name}`, place, ...(words ? { words } : {}) });
  };
  for (const step of layout.steps) {
    if (step.do === 'link') add('link', 'veth', step);
    else if (step.do === 'qdisc') add('qdisc', step.kind, step);
    // One word is no more than the name.
    else if (step.do === 'tc') add('qdisc', step.words[0] ?? '', step, step.words.length > 1 ? step.words : undefined);
    else if (step.do === 'filter') add('classifier', step.kind, step);
    else if (step.do === 'redirect') add('redirect', 'mirred', step);
  }
  return [...out.values()];
}
