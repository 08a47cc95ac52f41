/** Each qdisc as a kernel has it, in a guest: set by our netlink as by tc, and read as tc reads it. */

import assert from 'node:assert/strict';
import { guestResult, needsGuest } from '../testing/guest.js';
import { qdiscs } from './registry.js';

const script = new URL('./kernel.guest.js', import.meta.url);

interface Driven { readonly kind: string; readonly names: readonly string[]; readonly state: readonly (number | null)[]; readonly marks: number | null; readonly drops: number; readonly tc: Record<string, unknown> & { tins?: Record<string, number>[] }; readonly findings: readonly string[] }

/** tc's names where they are not ours, with the factor to our units; null: tc does not show it, or it depends on when it is asked. */
const tcNames: Readonly<Record<string, readonly [name: string, factor: number] | null>> = {
  'codel ldelay': ['ldelay', 1000], 'codel drop_next': null, 'fq_codel drop_overmemory': null, 'fq_codel memory_usage': ['memory_used', 1], 'pie delay': ['delay', 1000], 'pie packets_in': ['pkts_in', 1],
  'pie avg_dq_rate': null, 'fq_pie packets_in': ['pkts_in', 1], 'fq_pie memory_usage': ['memory_used', 1], 'hhf hh_tot_count': ['tot_hh', 1], 'hhf hh_cur_count': ['cur_hh', 1],
  'fq inactive_flows': ['inactive', 1], 'fq throttled_flows': null, 'fq horizon_drops': null, 'fq horizon_caps': null, 'fq gc_flows': ['gc', 1], 'cake capacity_estimate': ['capacity_estimate', 8],
};
const tinNames: Readonly<Record<string, readonly [string, number]>> = {
  sent: ['sent_packets', 1], dropped: ['drops', 1], ack_drops: ['ack_drops', 1], marked: ['ecn_mark', 1], backlog_bytes: ['backlog_bytes', 1],
  peak_delay: ['peak_delay_us', 1000], avg_delay: ['avg_delay_us', 1000], base_delay: ['base_delay_us', 1000],
};
/** Marks as tc shows them. */
const markKeys: Readonly<Record<string, readonly string[]>> = { red: ['marked'], choke: ['marked'], sfb: ['marked'], codel: ['ecn_mark', 'ce_mark'], fq_codel: ['ecn_mark', 'ce_mark'], pie: ['ecn_mark'], fq_pie: ['ecn_mark'], fq: ['ce_mark'] };

describe('Queue disciplines in a kernel', function () {
  this.timeout(600_000);
  before(needsGuest);

  it('are configured by netlink exactly as tc configures them', async () => {
    const { compared, differences } = await guestResult<{ compared: number; differences: unknown[] }>(script, { args: ['set'], timeoutS: 400 });
    assert.deepEqual(differences, []);
    assert.ok(compared > 100, `${compared} compared`);
  });

  let driven: readonly Driven[] = [];
  it('carry traffic twice their rate without a finding', async () => {
    driven = await guestResult<Driven[]>(script, { args: ['drive'], timeoutS: 400 });
    assert.equal(driven.length, qdiscs.size - 1, 'all but dualpi2');
    for (const { kind, findings, drops } of driven) {
      assert.deepEqual(findings, [], kind);
      assert.ok(drops > 0, `${kind} dropped nothing at twice its rate`);
    }
  });

  it('report the state that tc -s shows, in our units', () => {
    let checked = 0;
    for (const { kind, names, state, tc } of driven) {
      const shown = { ...(tc['options'] as Record<string, unknown>), ...tc };
      names.forEach((name, index) => {
        const tin = /^tin(\d)_(.*)$/.exec(name);
        const known = tcNames[`${kind} ${name}`];
        if (known === null) return;
        const [key, factor] = tin ? tinNames[tin[2]!]! : known ?? [name, 1];
        const raw = tin ? tc.tins?.[Number(tin[1])]?.[key] : shown[key];
        const value = state[index];
        // tc leaves out what is 0 or not there
        const expected = raw === true ? 1 : typeof raw === 'number' ? raw * factor : tin && tc.tins?.[Number(tin[1])] === undefined ? null : 0;
        if (expected === null) assert.equal(value, null, `${kind} ${name}`);
        else assert.ok(value !== null && Math.abs(value! - expected) <= 1e-5 * Math.max(1, Math.abs(expected) * (name.includes('prob') ? 1 : 1e-6)), `${kind} ${name}: ${value}, tc shows ${expected}`);
        checked++;
      });
    }
    assert.ok(checked > 80, `${checked} values`);
  });

  it('report the CE marks that tc -s shows', () => {
    for (const { kind, marks, tc } of driven) {
      const keys = markKeys[kind];
      if (keys === undefined) continue;
      assert.equal(marks, keys.reduce((sum, key) => sum + Number(tc[key] ?? 0), 0), kind);
    }
    const marking = driven.filter(({ marks }) => (marks ?? 0) > 0).map(({ kind }) => kind);
    for (const kind of ['red', 'choke', 'sfq', 'codel', 'fq_codel', 'cake', 'fq']) assert.ok(marking.includes(kind), `${kind} marked nothing`);
  });

  it('count marks per tin of CAKE and give their sum', () => {
    const cake = driven.find(({ kind }) => kind === 'cake');
    assert.equal(cake?.marks, cake?.tc.tins?.reduce((sum, tin) => sum + Number(tin['ecn_mark']), 0));
  });
});
