/**
 * Student's t for whole degrees of freedom, by the finite sums of Abramowitz & Stegun 1964, 26.7.3 and 26.7.4. Own code
 * because simple-statistics has neither its distribution function nor its quantiles.
 */

/** P(|T| ≤ t). */
function within(t: number, degreesOfFreedom: number): number {
  const theta = Math.atan(t / Math.sqrt(degreesOfFreedom));
  const [sine, cosine] = [Math.sin(theta), Math.cos(theta)];
  const odd = degreesOfFreedom % 2 === 1;
  let term = odd ? cosine : 1;
  let sum = degreesOfFreedom === 1 ? 0 : term;
  for (let k = odd ? 3 : 2; k <= degreesOfFreedom - 2; k += 2) {
    term *= ((k - 1) / k) * cosine * cosine;
    sum += term;
  }
  return odd ? (2 / Math.PI) * (theta + sine * sum) : sine * sum;
}

/** Found by bisection, and asked for a few levels and degrees again and again. */
const quantiles = new Map<string, number>();

export const studentT = {
  /** P(|T| ≥ |t|). @param degreesOfFreedom whole, ≥ 1 */
  twoSided(t: number, degreesOfFreedom: number): number {
    return Math.min(1, Math.max(0, 1 - within(Math.abs(t), degreesOfFreedom)));
  },
  /** @param level 0.5 … 1 @param degreesOfFreedom whole, ≥ 1 @returns t with P(T ≤ t) = level */
  quantile(level: number, degreesOfFreedom: number): number {
    const key = `${level} ${degreesOfFreedom}`;
    const known = quantiles.get(key);
    if (known !== undefined) return known;
    const wanted = 2 * level - 1;
    let [low, high] = [0, 1];
    while (within(high, degreesOfFreedom) < wanted) high *= 2;
    for (let step = 0; step < 200 && high - low > 1e-12 * high; step++) {
      const middle = (low + high) / 2;
      if (within(middle, degreesOfFreedom) < wanted) low = middle;
      else high = middle;
    }
    quantiles.set(key, (low + high) / 2);
    return (low + high) / 2;
  },
};
