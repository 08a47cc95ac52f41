/**
 * Tests of a tool (flent) in the simulator: their streams and pings are flows and probes of the plan like any others,
 * so a test made of netperf streams, pings and irtt is simulated as bulk flows and probes. What the simulator cannot
 * know is refused: series of other programs, and DSCP markings where a queue looks at them.
 */

import { UserError } from '../testbed/errors.js';
import type { Plan } from '../testbed/plan/plan.js';

/** Queue disciplines that sort packets by DSCP. */
const readsDscp: ReadonlySet<string> = new Set(['cake', 'pfifo_fast']);

/** @throws UserError naming what cannot be simulated, and why */
export function checkTests(plan: Plan): void {
  for (const { tool, test, class: name, series } of plan.tests ?? []) {
    const other = series.filter(({ flow, probe }) => flow === null && probe === null);
    if (other.length > 0) {
      throw new UserError(`traffic ${name}: ${tool}'s ${test} cannot be simulated: ${[...new Set(other.map(({ program, name: what }) => `"${what}" (${program})`))].slice(0, 3).join(', ')} is not a bulk TCP stream, a ping or an irtt probe, and only the program itself knows what it sends; run it on a kernel`);
    }
    const marked = series.find(({ marking }) => marking !== null && !/^CS0\b/i.test(marking));
    const queue = plan.links.flatMap(({ forward, reverse }) => [forward, reverse]).find((direction) => direction.queue !== null && readsDscp.has(direction.queue.kind) && direction.queue.params['besteffort'] !== true);
    if (marked !== undefined && queue !== undefined) {
      throw new UserError(`traffic ${name}: ${tool}'s ${test} cannot be simulated through ${queue.queue!.kind} (${queue.name}): its streams carry DSCP markings ("${marked.name}": ${marked.marking}), which that queue sorts by and the simulator does not set; run it on a kernel, or take another queue or a test without markings (rrul_be)`);
    }
  }
}
