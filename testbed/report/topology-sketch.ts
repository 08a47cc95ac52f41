/** The topology as a small drawing: routers in a row, links between them with rate and queue, hosts in groups at their routers. */

import type { Plan } from '../plan/plan.js';
import { formatBps } from './format.js';
import { escapeHtml } from './svg.js';

const groupOf = (host: string): string => host.replace(/\[\d+\]$/, '');

/** @param showQueues false where the queue is what varies */
export function topologySketch(plan: Plan, showQueues = true): string {
  const routers = plan.nodes.filter((node) => node.role === 'router').map((node) => node.name);
  if (routers.length === 0 || routers.length > 12) return '';
  const groups = new Map<string, Map<string, number>>(routers.map((router) => [router, new Map()]));
  for (const link of plan.links) {
    if (link.role !== 'access') continue;
    const [host, router] = groups.has(link.b.node) ? [link.a.node, link.b.node] : [link.b.node, link.a.node];
    const at = groups.get(router);
    at?.set(groupOf(host), (at.get(groupOf(host)) ?? 0) + 1);
  }
  const gap = 150;
  const margin = 60;
  const width = Math.max(420, margin * 2 + (routers.length - 1) * gap);
  const start = (width - (routers.length - 1) * gap) / 2;
  const x = (router: string): number => start + routers.indexOf(router) * gap;
  const links = plan.links.filter((link) => link.role === 'bottleneck');
  const pairs = new Map<string, number>();
  const longest = links.reduce((most, link) => Math.max(most, Math.abs(routers.indexOf(link.a.node) - routers.indexOf(link.b.node))), 1);
  const parallel = links.length - new Set(links.map((link) => [link.a.node, link.b.node].sort().join())).size;
  const y = 44 + (longest > 1 ? (longest - 1) * 28 : 0) + parallel * 34;
  const mostGroups = Math.max(0, ...[...groups.values()].map((hosts) => hosts.size));
  const height = y + 34 + mostGroups * 24;
  const parts: string[] = [];
  for (const link of links) {
    if (!routers.includes(link.a.node) || !routers.includes(link.b.node)) continue;
    const [a, b] = [x(link.a.node), x(link.b.node)].sort((p, q) => p - q) as [number, number];
    const key = [link.a.node, link.b.node].sort().join();
    const nth = pairs.get(key) ?? 0;
    pairs.set(key, nth + 1);
    const lift = (Math.abs(routers.indexOf(link.a.node) - routers.indexOf(link.b.node)) - 1) * 28 + nth * 34;
    const middle = (a + b) / 2;
    parts.push(`<path class="wire" d="M${a} ${y}Q${middle} ${y - 2 * lift} ${b} ${y}"/>`);
    const { queue } = link.forward;
    const [there, back] = [link.forward.rateBps, link.reverse.rateBps];
    // Arrows as drawn: the first node of a link may be the right one.
    const [ahead, astern] = x(link.a.node) <= x(link.b.node) ? ['→', '←'] : ['←', '→'];
    const rateText = (rate: number | null): string => (rate === null ? 'no limit' : formatBps(rate));
    const rates = there === back ? [...(there === null ? [] : [formatBps(there)])] : [`${ahead} ${rateText(there)}`, `${astern} ${rateText(back)}`];
    parts.push(`<text class="tick" x="${middle}" y="${y - lift - 20}" text-anchor="middle">${escapeHtml(link.name)}${queue === null || !showQueues ? '' : ` · ${escapeHtml(queue.kind)}`}</text>`);
    if (rates.length > 0) parts.push(`<text class="tick" x="${middle}" y="${y - lift - 7}" text-anchor="middle">${rates[0]}</text>`);
    if (rates.length > 1) parts.push(`<text class="tick" x="${middle}" y="${y - lift + 16}" text-anchor="middle">${rates[1]}</text>`);
  }
  for (const router of routers) {
    const at = x(router);
    const name = router.length > 10 ? `${router.slice(0, 9)}…` : router;
    const half = Math.max(17, name.length * 3.6 + 8);
    parts.push(`<rect class="router" x="${at - half}" y="${y - 17}" width="${2 * half}" height="34" rx="17"/><text class="label" x="${at}" y="${y}" dy=".35em" text-anchor="middle">${escapeHtml(name)}</text>`);
    let row = 0;
    for (const [group, count] of groups.get(router)!) {
      const top = y + 28 + row++ * 24;
      const text = `${group}${count > 1 ? ` × ${count}` : ''}`;
      parts.push(`<path class="wire" d="M${at} ${top - (row === 1 ? 11 : 4)}V${top}"/><rect class="hosts" x="${at - 42}" y="${top}" width="84" height="20" rx="4"/><text class="tick" x="${at}" y="${top + 10}" dy=".35em" text-anchor="middle">${escapeHtml(text.slice(0, 14))}</text>`);
    }
  }
  return `<div class="scroll"><svg class="topology" style="max-width:${width}px;min-width:${Math.min(width, Math.round(width * 0.75))}px" viewBox="0 0 ${width} ${height}" role="img" aria-label="Topology">${parts.join('')}</svg></div>`;
}
