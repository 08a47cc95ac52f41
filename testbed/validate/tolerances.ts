/**
 * How far the simulator may be from the kernel before it counts as a difference: the default tolerances of
 * `testbed validate` and of `sim ~ kernel` without figures of its own. The one place they are written down.
 *
 * A figure is inside when |sim − kernel| ≤ max(relative × |kernel|, absolute), medians over seeds, or the means are within the noise floor (noise.ts).
 */

export interface Tolerance {
  /** Fraction of the reference's magnitude, 0.1 for 10 %; null: none. */
  readonly relative: number | null;
  /** In the figure's own unit (ms, s, bits/s, …); null: none. */
  readonly absolute: number | null;
}

export interface DefaultTolerance extends Tolerance {
  /** Where in metrics.json: of every bottleneck that carries traffic, or of every traffic class. */
  readonly of: 'bottlenecks' | 'classes';
  /** Path below it. */
  readonly figure: string;
  readonly title: string;
}

export const defaultTolerances: readonly DefaultTolerance[] = [
  { of: 'bottlenecks', figure: 'utilisation', title: 'utilisation', relative: 0.02, absolute: null },
  { of: 'bottlenecks', figure: 'queueDelayMs.p50', title: 'queueing, median', relative: 0.1, absolute: 1 },
  { of: 'bottlenecks', figure: 'queueDelayMs.p99', title: 'queueing, p99', relative: 0.2, absolute: 2 },
  { of: 'bottlenecks', figure: 'lossRatio', title: 'loss ratio', relative: 0.2, absolute: null },
  { of: 'classes', figure: 'fctS.p50', title: 'completion, median', relative: 0.1, absolute: null },
];

/** A bottleneck below this utilisation in every run (an ACK path) is not compared: there is no queue to speak of. */
export const leastUtilisation = 0.1;

/** The most a tolerance allows at this reference value, in the figure's unit, noise left out. */
export const allowed = ({ relative, absolute }: Tolerance, reference: number): number =>
  Math.max(relative === null ? 0 : relative * Math.abs(reference), absolute ?? 0);

/** `10 % or 1 ms`. @param unit written after the absolute part */
export function formatTolerance({ relative, absolute }: Tolerance, unit = ''): string {
  const parts = [
    ...(relative === null ? [] : [`${Number((relative * 100).toPrecision(6))} %`]),
    ...(absolute === null ? [] : [`${Number(absolute.toPrecision(6))}${unit === '' ? '' : ` ${unit}`}`]),
  ];
  return parts.join(' or ') || 'no difference';
}
