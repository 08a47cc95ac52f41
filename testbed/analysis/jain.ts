/**
 * Jain's fairness index (Jain, Chiu & Hawe, DEC-TR-301, 1984): (Σx)² / (n Σx²). 1 when all are equal, 1/n when one has all.
 * @returns null for no value, or when all are 0
 */
export function jain(values: readonly number[]): number | null {
  const largest = values.reduce((a, b) => Math.max(a, b), 0);
  if (!(largest > 0) || !Number.isFinite(largest)) return null;
  // Scaled by the largest, so that squares of huge or tiny rates neither overflow nor vanish.
  let sum = 0;
  let squares = 0;
  for (const value of values) {
    sum += value / largest;
    squares += (value / largest) ** 2;
  }
  return (sum * sum) / (values.length * squares);
}
