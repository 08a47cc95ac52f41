/**
 * testbed.config.yaml: what belongs to a place and not to a scenario, such as the remote machines. Looked for in the
 * working folder and above it, or named by $TESTBED_CONFIG.
 *
 *     machines:
 *       lab:  { ssh: "root@lab.example:2222", key: ~/.ssh/lab, node: /opt/node/bin/node }
 *       new:  { machine: "uml:7.3" }
 *       here: { machine: local, hosts: docker, queues: daemon }
 */

import { existsSync, readFileSync } from 'node:fs';
import * as path from 'node:path';
import { parse, YAMLParseError } from 'yaml';
import { z } from 'zod';
import { UserError } from '../errors.js';
import { hostsKinds } from '../machines/machine.js';
import { queuePlacements } from '../plan/queue-place.js';
import { systemMessage } from '../run/system-error.js';

const machine = z.strictObject({
  /** `user@host[:port]`, with or without `ssh://`. */
  ssh: z.string().optional(),
  key: z.string().optional(),
  node: z.string().optional(),
  /** A machine as `--machine` names it: `local`, `uml:7.3`. Either this or `ssh`. */
  machine: z.string().refine((name) => /^(local|uml(:.+)?|ssh:.+)$/.test(name), { error: 'expected local, uml, uml:VERSION or ssh://user@host' }).optional(),
  /** As the options of `testbed run`, which come before these. */
  hosts: z.enum(hostsKinds).optional(),
  clock: z.enum(['virtual', 'real']).optional(),
  queues: z.enum(queuePlacements).optional(),
}).refine(({ ssh, machine: name }) => (ssh === undefined) !== (name === undefined), { error: 'expected ssh (user@host) or machine (local, uml:7.3), one of them' })
  .refine(({ machine: name, key, node }) => name === undefined || (key === undefined && node === undefined), { error: 'key and node belong to ssh' });
export type MachineConfig = z.infer<typeof machine>;

/** Names that mean something else after `--machine`. */
const taken: readonly string[] = ['all', 'auto', 'local', 'uml', 'ssh'];
const zMachineName = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]*$/, 'a name of letters, digits, dots and dashes').refine((name) => !taken.includes(name), { error: `expected another name: ${taken.join(', ')} mean something else after --machine` });

const influx = z.strictObject({ url: z.string().optional(), org: z.string().optional(), bucket: z.string().optional(), token: z.string().optional() });

const schema = z.strictObject({
  machines: z.record(zMachineName, machine).optional(),
  influx: influx.optional(),
});
export type Config = z.infer<typeof schema>;

export const configName = 'testbed.config.yaml';

/** The file in use; null when there is none. */
export function configFile(from: string = process.cwd()): string | null {
  const named = process.env['TESTBED_CONFIG'];
  if (named) return path.resolve(named);
  for (let folder = path.resolve(from); ; folder = path.dirname(folder)) {
    const file = path.join(folder, configName);
    if (existsSync(file)) return file;
    if (folder === path.dirname(folder)) return null;
  }
}

/** Empty when there is no file. @throws UserError with the file and what is wrong in it */
export function readConfig(file: string | null = configFile()): Config {
  if (file === null) return {};
  let value: unknown;
  try {
    value = parse(readFileSync(file, 'utf8'));
  } catch (error) {
    const where = error instanceof YAMLParseError && error.linePos ? `:${error.linePos[0].line}` : '';
    const missing = (error as NodeJS.ErrnoException).code === 'ENOENT' ? `${file}: there is no such file, but TESTBED_CONFIG names it` : systemMessage(error);
    throw new UserError(missing ?? `${file}${where}: ${(error as Error).message.split('\n')[0]}`, 2);
  }
  const parsed = schema.safeParse(value ?? {});
  if (parsed.success) return parsed.data;
  // The values are not repeated: one of them may be a token.
  throw new UserError(parsed.error.issues.map((issue) => `${file}: ${issue.path.join('.') || 'the file'}: ${wording(issue)}`).join('\n'), 2);
}

function wording(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case 'invalid_key': return issue.issues[0]!.message;
    case 'invalid_type': return `expected ${issue.expected === 'string' ? 'text' : 'a map of keys and values'}`;
    case 'invalid_value': return `expected ${issue.values.join(' or ')}`;
    case 'unrecognized_keys': return `unknown key ${issue.keys.map((key) => JSON.stringify(key)).join(', ')}; expected ${Object.keys(shapeAt(issue.path)).join(', ')}`;
    default: return issue.message;
  }
}

const shapeAt = ([section]: readonly PropertyKey[]): object => (section === 'machines' ? machine.shape : section === 'influx' ? influx.shape : schema.shape);
