/** Options that several commands have for the scenario they are given. */

import { InvalidArgumentError } from 'commander';
import { maxSeed } from '../scenario/schema.js';

/** For options that may be given several times. */
export const collect = (value: string, before: string[]): string[] => [...before, value];

/** @throws InvalidArgumentError when it is not a seed */
export function parseSeed(text: string): number {
  const seed = Number(text);
  if (!/^\d+$/.test(text) || seed > maxSeed) throw new InvalidArgumentError(`expected a whole number from 0 to ${maxSeed}`);
  return seed;
}
