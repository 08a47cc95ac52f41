/**
 * The scenario schema for editors (JSON Schema, draft 7, which YAML language servers read) and for people (the table
 * of keys in docs/scenario.md). Both come from the schema that validates.
 */

import { z } from 'zod';
import { aqms } from '../../aqm/registry.js';
import { qdiscs } from '../qdiscs/registry.js';
import { zHost } from './hosts.js';
import { zLink } from './link.js';
import { zProbe } from './probe.js';
import { zScenario, zTopology } from './schema.js';
import { flent } from './traffic/flent.js';
import { trafficKinds } from './traffic/registry.js';
import { zMeasure } from './measure.js';
import { zCollect } from './collect.js';
import { zTcp } from './tcp.js';

type Json = { [key: string]: unknown };

const options = { target: 'draft-7', io: 'input', unrepresentable: 'any' } as const;

/** A queue discipline: a name, or a map with the parameters of its kind. */
function queueSchema(): Json {
  const kinds: Json[] = [];
  for (const [kind, place, schema] of [
    ...[...qdiscs.values()].map((q) => [q.kind, 'kernel', q.schema] as const),
    ...[...aqms.values()].filter((a) => !qdiscs.has(a.kind)).map((a) => [a.kind, 'daemon', a.schema] as const),
  ]) {
    const { $schema: _, ...parameters } = z.toJSONSchema(schema, options) as Json;
    kinds.push({
      ...parameters,
      title: kind,
      properties: { kind: { const: kind, description: `Queue discipline ${kind}.` }, in: { enum: place === 'kernel' && !aqms.has(kind) ? ['kernel'] : place === 'daemon' ? ['daemon'] : ['kernel', 'daemon'] }, ...(parameters['properties'] as Json) },
      required: ['kind', ...((parameters['required'] as string[] | undefined) ?? [])],
    });
  }
  const names = [...new Set([...qdiscs.keys(), ...aqms.keys()])].sort();
  return {
    description: 'A queue discipline: its name, or { kind: NAME, parameters }, or { tc: "words of tc" }.',
    anyOf: [
      { enum: names },
      ...kinds,
      {
        title: 'raw tc', type: 'object', additionalProperties: false, required: ['tc'],
        properties: { kind: { const: 'raw' }, in: { const: 'kernel' }, tc: { description: "tc's words for the qdisc.", anyOf: [{ type: 'string' }, { type: 'array', items: { type: 'string' } }] } },
      },
    ],
  };
}

/** @returns a JSON Schema (draft 7) of a scenario file */
export function scenarioJsonSchema(): Json {
  const schema = z.toJSONSchema(zScenario, {
    ...options,
    override: ({ zodSchema, jsonSchema }) => {
      const json = jsonSchema as Json;
      // `{ at: 20s, set BL1.rate: 5mbit }`: keys that begin with `set `.
      const properties = json['properties'] as Json | undefined;
      if (zodSchema._zod.def.type === 'object' && properties && 'at' in properties && 'set' in properties) {
        json['additionalProperties'] = false;
        json['patternProperties'] = { '^set\\s': {} };
      }
      // `tool: flent` says the kind as well.
      if (zodSchema === flent.schema) {
        json['required'] = (json['required'] as string[]).filter((key) => key !== 'kind');
        json['anyOf'] = [{ required: ['kind'] }, { required: ['tool'], properties: { tool: { const: 'flent' } } }];
      }
    },
  }) as Json;
  const definitions = (schema['definitions'] ?? schema['$defs']) as Json | undefined;
  if (!definitions?.['Queue']) throw new Error('the schema of a queue has lost its name');
  definitions['Queue'] = queueSchema();
  return { ...schema, title: 'testbed scenario', description: 'A scenario of testbed: topology, traffic, probes, what to measure and what to vary.' };
}

interface Section { readonly title: string; readonly keys: readonly (readonly [string, z.ZodType])[] }

function sections(): Section[] {
  const keys = (schema: z.ZodObject): [string, z.ZodType][] => Object.entries(schema.shape) as [string, z.ZodType][];
  const kinds = [...trafficKinds.values()];
  const shared = keys(kinds[0]!.schema).filter(([key]) => key !== 'kind' && kinds.every((kind) => key in kind.schema.shape));
  const sharedKeys = new Set(shared.map(([key]) => key));
  return [
    { title: 'The file', keys: keys(zScenario) },
    { title: '`topology`', keys: keys(zTopology) },
    { title: '`topology.links.NAME`', keys: keys(zLink) },
    { title: '`topology.hosts.NAME`', keys: keys(zHost) },
    { title: '`traffic.NAME`, every kind', keys: shared },
    ...kinds.map((kind) => ({ title: `\`traffic.NAME\`, \`kind: ${kind.kind}\``, keys: keys(kind.schema).filter(([key]) => !sharedKeys.has(key)) })),
    { title: '`probes.NAME`', keys: keys(zProbe) },
    { title: '`measure`', keys: keys(zMeasure) },
    { title: '`collect`', keys: keys(zCollect) },
    { title: '`tcp`', keys: keys(zTcp) },
  ];
}

/** Every key with what it means and its default, as Markdown tables. */
export function scenarioKeysMarkdown(): string {
  return sections().map(({ title, keys }) => [
    `### ${title}`, '', '| key | meaning |', '|---|---|',
    ...keys.map(([key, schema]) => {
      const required = !schema.safeParse(undefined).success;
      return `| \`${key}\`${required ? ' (required)' : ''} | ${(schema.meta()?.description ?? '').replaceAll('|', '\\|')} |`;
    }),
    '',
  ].join('\n')).join('\n');
}
