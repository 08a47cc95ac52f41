/** Figures as they are written: whole numbers exactly, others to 7 significant digits, what is not finite as null. */

export const significantDigits = 7;

export function roundNumber(value: number): number | null {
  if (!Number.isFinite(value)) return null;
  return Number.isInteger(value) ? value + 0 : Number(value.toPrecision(significantDigits));
}

/** The same for every number in a JSON value; −0 becomes 0. */
export function rounded<T>(value: T): T {
  if (typeof value === 'number') return roundNumber(value) as T;
  if (Array.isArray(value)) return value.map(rounded) as T;
  if (value !== null && typeof value === 'object') return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, rounded(inner)])) as T;
  return value;
}
