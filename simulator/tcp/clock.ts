/**
 * Linux's two clocks as TCP uses them: microseconds for time stamps and RTTs, jiffies for timers. HZ is 100, the
 * value of User-Mode Linux, the kernel the simulator is compared with (distributions' kernels: 250 or 1000).
 * Timer expiry follows the timer wheel (kernel/time/timer.c, calc_index): never early, rounded up to the next slot of the
 * level the distance falls into.
 */

export const hz = 100;
export const jiffyNs = 1e9 / hz;
const jiffyUs = 1e6 / hz;
/** TCP_RTO_MIN, TCP_RTO_MAX, TCP_TIMEOUT_INIT, TCP_ATO_MIN = TCP_DELACK_MIN, TCP_DELACK_MAX (include/net/tcp.h), jiffies. */
export const rtoMin = hz / 5;
export const rtoMax = 120 * hz;
export const timeoutInit = hz;
export const atoMin = hz / 25;
export const delackMax = hz / 5;
/** tcp_delack_max: a jiffy less than the least RTO. */
export const delackLongest = Math.min(delackMax, rtoMin - 1);
/** TCP_TIMEOUT_MIN_US: 2 ms, whatever a jiffy is. */
export const timeoutMinUs = 2000;
export const rtoMinUs = rtoMin * jiffyUs;

export const jiffies = (nowNs: number): number => Math.floor(nowNs / jiffyNs);
/** usecs_to_jiffies: rounds up. @param us whole, not negative */
export const usToJiffies = (us: number): number => (us < 2e9 ? ((us + (jiffyUs - 1)) / jiffyUs) | 0 : Math.ceil(us / jiffyUs));
export const jiffiesToUs = (j: number): number => j * jiffyUs;

/** The level of the timer wheel that a timer goes to. @param delta jiffies from now */
export function timerLevel(delta: number): number {
  let level = 0;
  for (let reach = 63; delta >= reach && level < 8; reach *= 8) level++;
  return level;
}

/** When a timer set now for `delta` jiffies from now fires, ns. */
export function timerNs(nowNs: number, delta: number): number { return timerAtNs(jiffies(nowNs), delta); }

/** The same, for who knows the time in jiffies. */
export function timerAtNs(nowJiffies: number, delta: number): number {
  const expires = nowJiffies + (delta > 0 ? delta : 0);
  if (delta < 63) return (expires + 1) * jiffyNs;
  const slot = 8 ** timerLevel(delta);
  return (Math.floor(expires / slot) + 1) * slot * jiffyNs;
}
