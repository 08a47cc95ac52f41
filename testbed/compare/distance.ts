/**
 * How far two samples' distributions lie apart. Both distances are of the two empirical distribution functions F and G,
 * exact, ties included:
 *
 * - Kolmogorov–Smirnov: max |F − G|, 0 … 1, without a unit;
 * - Wasserstein-1 (earth mover's): ∫ |F − G| dx, in the unit of the samples; how far, on average, a sample must be moved.
 *
 * Own code: no npm library of the field has the two-sample forms.
 */

export interface Distances { readonly ks: number; readonly wasserstein: number }

/** @param a, b sorted ascending, finite, at least one value each @throws RangeError when one is empty */
export function distances(a: ArrayLike<number>, b: ArrayLike<number>): Distances {
  if (a.length === 0 || b.length === 0) throw new RangeError('no distance to an empty sample');
  let i = 0;
  let j = 0;
  let ks = 0;
  let wasserstein = 0;
  let gap = 0;
  let previous = Math.min(a[0]!, b[0]!);
  while (i < a.length || j < b.length) {
    const x = Math.min(i < a.length ? a[i]! : Infinity, j < b.length ? b[j]! : Infinity);
    wasserstein += gap * (x - previous);
    while (i < a.length && a[i] === x) i++;
    while (j < b.length && b[j] === x) j++;
    gap = Math.abs(i / a.length - j / b.length);
    if (gap > ks) ks = gap;
    previous = x;
  }
  return { ks, wasserstein };
}

/** All values of several sorted samples as one. */
export function pooled(samples: readonly Float64Array[]): Float64Array {
  if (samples.length === 1) return samples[0]!;
  const all = new Float64Array(samples.reduce((sum, sample) => sum + sample.length, 0));
  let at = 0;
  for (const sample of samples) {
    all.set(sample, at);
    at += sample.length;
  }
  return all.sort();
}
