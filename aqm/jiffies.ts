/**
 * Linux's timers that count jiffies (kernel/time/timer.c), for the periodic updates of qdiscs. A period is rounded up to
 * whole jiffies (usecs_to_jiffies), and the timer wheel then waits one jiffy more, so that it is never early: calc_index()
 * adds the granularity before it chooses the bucket. PIE's 15 ms are 30 ms at HZ = 100, 20 ms at 250 and 16 ms at 1000.
 *
 * HZ is 100 in every User-Mode Linux (arch/um/Kconfig), the kernels that the simulator is compared with.
 */

const HZ = 100;
export const JIFFY_NS = 1e9 / HZ;

/** What mod_timer(timer, jiffies + usecs_to_jiffies(period)) makes of a period set again each time it goes off, ns. Below 64 jiffies; beyond, the wheel is coarser still. */
export const timerNs = (periodNs: number): number => (Math.ceil(periodNs / JIFFY_NS) + 1) * JIFFY_NS;

/** The time as `jiffies` shows it, ns. */
export const jiffiesNs = (nowNs: number): number => nowNs - (nowNs % JIFFY_NS);
/** The same as an odd number of jiffies (jiffies | 1): what shares its place with a pointer, as the age of fq's flows. */
export const oddJiffiesNs = (nowNs: number): number => (Math.floor(nowNs / JIFFY_NS) % 2 === 0 ? jiffiesNs(nowNs) + JIFFY_NS : jiffiesNs(nowNs));
/** A timeout as usecs_to_jiffies() and msecs_to_jiffies() round it, ns. */
export const timeoutNs = (ns: number): number => Math.ceil(ns / JIFFY_NS) * JIFFY_NS;
