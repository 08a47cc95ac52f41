/**
 * A distribution in the ten figures the field reports. Quantiles interpolate linearly between order statistics
 * (Hyndman & Fan 1996, type 7; DuckDB's quantile_cont); sd is the sample's (n − 1). null where undefined.
 */

export const quantiles = { p5: 0.05, p25: 0.25, p50: 0.5, p75: 0.75, p95: 0.95, p99: 0.99 } as const;
export type Quantile = keyof typeof quantiles;

export type Distribution = { readonly [K in 'mean' | 'sd' | Quantile | 'max']: number | null } & { readonly n: number; readonly method: string };

/** SQL aggregates of `value` (null and NaN are left out), to be read by `distributionOf`. */
export function distributionSql(value: string, prefix = ''): string {
  const levels = Object.values(quantiles).join(', ');
  return `count(${value}) AS ${prefix}n, avg(${value}) AS ${prefix}mean, CASE WHEN count(${value}) > 1 THEN stddev_samp(${value}) END AS ${prefix}sd, `
    + `quantile_cont(${value}, [${levels}]) AS ${prefix}q, max(${value}) AS ${prefix}max`;
}

export function distributionOf(row: Readonly<Record<string, unknown>> | undefined, method: string, prefix = ''): Distribution {
  const number = (value: unknown): number | null => (typeof value === 'number' && Number.isFinite(value) ? value : null);
  const n = number(row?.[`${prefix}n`]) ?? 0;
  const levels = (n > 0 ? row?.[`${prefix}q`] : undefined) as readonly number[] | undefined;
  return {
    mean: number(row?.[`${prefix}mean`]), sd: number(row?.[`${prefix}sd`]),
    p5: number(levels?.[0]), p25: number(levels?.[1]), p50: number(levels?.[2]), p75: number(levels?.[3]), p95: number(levels?.[4]), p99: number(levels?.[5]),
    max: number(row?.[`${prefix}max`]), n, method,
  };
}
