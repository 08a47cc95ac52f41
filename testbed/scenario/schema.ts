/** The whole scenario: its sections, each in a file of its own beside this one. */

import { z } from 'zod';
import { zCollect } from './collect.js';
import { zEvent } from './events.js';
import { zExpect } from './expect.js';
import { zHost } from './hosts.js';
import { zLink, zMtu } from './link.js';
import { zMeasure } from './measure.js';
import { zName } from './names.js';
import { zProbe } from './probe.js';
import { zTcp } from './tcp.js';
import type { CommonTraffic } from './traffic/kind.js';
import { trafficKinds } from './traffic/registry.js';

const kindSchemas = [...trafficKinds.values()].map((kind) => kind.schema) as [z.ZodObject, ...z.ZodObject[]];
/** The kinds' own types meet here; what all have is CommonTraffic, the rest only its kind reads. */
const zTraffic = z.discriminatedUnion('kind', kindSchemas).transform((traffic) => traffic as unknown as CommonTraffic);

export const maxRouters = 100;
const routerWords = `a list of 1 to ${maxRouters} names of routers, such as [R1, R2]`;

export const zTopology = z.strictObject({
  ip: z.union([z.literal(4), z.literal(6)], { error: 'expected 4 or 6' }).optional().meta({ description: 'IP version. Default: 4.' }),
  mtu: zMtu.optional().meta({ description: 'IP MTU of every link that does not say its own, bytes. Default: 1500.' }),
  routers: z.array(zName, { error: `expected ${routerWords}` }).min(1, { error: `expected ${routerWords}` }).max(maxRouters, { error: `expected ${routerWords}` }).meta({ description: 'Names of the routers.' }),
  links: z.record(zName, zLink).optional().meta({ description: 'Links between routers, by name. Those with a rate are the bottlenecks. Together they join the routers without a cycle.' }),
  hosts: z.record(zName, zHost).meta({ description: 'Hosts or groups of equal hosts, by name.' }),
});

const titleWords = 'a name of at most 64 letters, digits, _, - and ., beginning with a letter or digit';
/** Seeds are 32 bits: here, on the command line and in every engine. */
export const maxSeed = 0xffffffff;
const seedWords = `expected whole numbers from 0 to ${maxSeed}`;
const zSeed = z.int({ error: seedWords }).min(0, { error: seedWords }).max(maxSeed, { error: seedWords });

export const zScenario = z.strictObject({
  name: z.string({ error: `expected ${titleWords}` }).regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/, { error: `expected ${titleWords}` }).meta({ description: 'Name of the scenario; run folders begin with it.' }),
  description: z.string().max(10_000).optional().meta({ description: 'What it shows, and its source.' }),
  topology: zTopology.meta({ description: 'Routers, links, hosts.' }),
  traffic: z.record(zName, zTraffic).optional().meta({ description: 'Flow classes, by name.' }),
  probes: z.record(zName, zProbe).optional().meta({ description: 'Delay probes, by name.' }),
  measure: zMeasure.optional().meta({ description: 'The measurement window.' }),
  seeds: z.array(zSeed, { error: 'expected a list of seeds, such as [1, 2, 3]' }).min(1, { error: 'expected a list of seeds, such as [1, 2, 3]' }).max(1000).optional().meta({ description: 'A run for each. Default: [1].' }),
  vary: z.record(z.string().min(1), z.array(z.unknown(), { error: 'expected a list of values, such as [pfifo, codel]' }).min(1, { error: 'expected a list of at least one value' }).max(1000)).optional().meta({ description: 'A run for every combination of these values: queue (of every bottleneck link with a queue), or a path such as topology.links.BL1.rate or traffic.long.cc.' }),
  events: z.array(zEvent, { error: 'expected a list, such as [{ at: 20s, set BL1.rate: 5mbit }]' }).max(10_000).optional().meta({ description: 'Changes during the run.' }),
  collect: zCollect.optional().meta({ description: 'What is recorded.' }),
  tcp: zTcp.optional().meta({ description: "Settings of the hosts' TCP." }),
  expect: zExpect.optional().meta({ description: 'What the figures must satisfy, for testbed validate.' }),
});

/** A scenario with units resolved (times ns, rates bits/s, sizes bytes); keys not written are absent. */
export type Resolved = z.output<typeof zScenario>;
