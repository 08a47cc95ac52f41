/**
 * The floor under any program's punctuality on this machine: a thread of the highest real-time priority used here that does nothing but
 * wake each ms and look at the clock, until standard input ends. Prints how late it woke, ns, as JSON. A wake-up that was slept through
 * counts as late as it was, like a packet that would have been due then.
 */

import { CLOCK_MONOTONIC, clockNs, stable, trySchedSetscheduler } from '../testbed/linux/libc.js';
import { tryPpoll } from '../daemon/system.js';
import { Lateness } from '../testbed/agent/loop.js';

const SCHED_FIFO = 1;
/** Above the daemon's 50. */
const priorityWanted = 60;
const periodNs = 1e6;
const POLLIN = 1;

const priority = stable(4);
priority.writeInt32LE(priorityWanted);
const realTimePriority = trySchedSetscheduler(0, SCHED_FIFO, priority) >= 0;
const lateness = new Lateness();
const pollfd = stable(8);
pollfd.writeInt16LE(POLLIN, 4); // descriptor 0
const timeout = stable(16);
const words = new Uint32Array(timeout.buffer);
for (let dueNs = clockNs(CLOCK_MONOTONIC) + periodNs; ;) {
  words[2] = Math.max(0, dueNs - clockNs(CLOCK_MONOTONIC));
  if (tryPpoll(pollfd, 1, timeout, null) > 0) break;
  for (const nowNs = clockNs(CLOCK_MONOTONIC); dueNs <= nowNs; dueNs += periodNs) lateness.add(nowNs - dueNs);
}
process.stdout.write(`${JSON.stringify({ realTimePriority, p50Ns: lateness.quantile(0.5), p99Ns: lateness.quantile(0.99), maxNs: lateness.maxNs })}\n`);
