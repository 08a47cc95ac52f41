/** Option values shared by commands. */

import { InvalidArgumentError } from 'commander';

/** `--set path=value`, repeated. */
export const collectSet = (value: string, previous: readonly string[]): readonly string[] => [...previous, value];

/** A whole number in a range. @throws InvalidArgumentError for commander to print */
export const wholeNumber = (low: number, high: number) => (text: string): number => {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < low || value > high) throw new InvalidArgumentError(`expected a whole number from ${low} to ${high}`);
  return value;
};
