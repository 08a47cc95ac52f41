/** Figures for people: three significant digits and a unit; an undefined one is a dash. */

const digits = (value: number): string => {
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-3) return value.toExponential(1).replace('e+', 'e');
  if (size >= 100) return String(Math.round(value));
  return String(Number(value.toPrecision(3)));
};
export const dash = '–';

export const formatMs = (ms: number | null | undefined): string => (ms === null || ms === undefined ? dash : Math.abs(ms) >= 1e4 ? `${digits(ms / 1e3)} s` : ms !== 0 && Math.abs(ms) < 1e-3 ? `${digits(ms * 1e6)} ns` : `${digits(ms)} ms`);
export const formatSeconds = (s: number | null | undefined): string => (s === null || s === undefined ? dash : s < 1 ? formatMs(s * 1e3) : `${digits(s)} s`);
export const formatPercent = (ratio: number | null | undefined): string => (ratio === null || ratio === undefined ? dash : `${digits(ratio * 100)} %`);
export const formatNumber = (value: number | null | undefined): string => (value === null || value === undefined ? dash : digits(value));
export const formatCount = (value: number | null | undefined): string =>
  value === null || value === undefined ? dash : String(Math.round(value)).replace(/\B(?=(\d{3})+(?!\d))/g, '\u202f');
export function formatBps(bps: number | null | undefined): string {
  if (bps === null || bps === undefined) return dash;
  for (const [unit, factor] of [['Gbit/s', 1e9], ['Mbit/s', 1e6], ['kbit/s', 1e3]] as const) if (Math.abs(bps) >= factor) return `${digits(bps / factor)} ${unit}`;
  return `${digits(bps)} bit/s`;
}
/** `queue=codel, rate=5mbit`; a path (`topology.links.BL.rate`) by its last part unless two end in the same. */
export function formatVaried(varied: Readonly<Record<string, string>>): string {
  const last = (key: string): string => key.split('.').at(-1)!;
  const keys = Object.keys(varied);
  return Object.entries(varied).map(([key, value]) => `${keys.filter((other) => last(other) === last(key)).length > 1 ? key : last(key)}=${value}`).join(', ');
}

/** `1 flow`, `2 flows`. */
export const counted = (count: number, one: string, many = `${one}s`): string => `${formatCount(count)} ${count === 1 ? one : many}`;

/** `uml:6.12 · Linux 6.12.117`, or the simulator. */
export const machineText = (run: { readonly engine: string; readonly machine: string; readonly kernel: { readonly release: string | null } | null }): string =>
  (run.engine === 'sim' ? 'simulator' : [run.machine, ...(run.kernel?.release ? [`Linux ${run.kernel.release}`] : [])].join(' · '));

/** `93.7 … 193 ms`: the unit once when both have it. */
export function formatRange(low: string, high: string): string {
  const at = low.indexOf(' ');
  return at > 0 && high.endsWith(low.slice(at)) ? `${low.slice(0, at)} … ${high}` : `${low} … ${high}`;
}
