/** Option values shared by commands. */

import { InvalidArgumentError } from 'commander';
import { parseSize } from '../units.js';

/** `--set path=value`, repeated. */
export const collectSet = (value: string, previous: readonly string[]): readonly string[] => [...previous, value];

/** A whole number in a range. @throws InvalidArgumentError for commander to print */
export const wholeNumber = (low: number, high: number) => (text: string): number => {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < low || value > high) throw new InvalidArgumentError(`expected a whole number from ${low} to ${high}`);
  return value;
};

/** A size of memory, bytes: `1GiB`, `512MiB`. @throws InvalidArgumentError for commander to print */
export function memorySize(text: string): number {
  const bytes = parseSize(text);
  if (bytes === undefined || bytes < 2 ** 27) throw new InvalidArgumentError('expected a size of at least 128MiB, such as 1GiB');
  return bytes;
}
