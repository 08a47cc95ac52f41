/** Option values shared by commands. */

import { InvalidArgumentError } from 'commander';
import { influxSettings } from '../influx/settings.js';
import type { RunScenarioOptions } from '../run/run-scenario.js';
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

/** What `run` and `sim` take alike, as commander gives it. */
export interface CommonRunOptions {
  readonly seed?: number;
  readonly set: readonly string[];
  readonly out: string;
  readonly jobs?: number;
  readonly packets: boolean;
  readonly report: boolean;
  readonly dryRun?: boolean;
  readonly influx?: boolean;
}

export const commonRunOptions = ({ set, out, packets, report, dryRun = false, seed, jobs, influx = false }: CommonRunOptions): Omit<RunScenarioOptions, 'file' | 'engine'> => ({
  set, out, packets, report, dryRun, ...(seed === undefined ? {} : { seed }), ...(jobs === undefined ? {} : { jobs }), ...(influx ? { influx: influxSettings() } : {}),
});
