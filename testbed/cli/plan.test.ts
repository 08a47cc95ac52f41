import * as assert from 'node:assert/strict';
import { Command } from 'commander';
import { ScenarioError, UserError } from '../errors.js';
import type { Plan } from '../plan/plan.js';
import { printPlan, register as registerPlan } from './plan.js';
import { register as registerSchema } from './schema.js';

/** Runs a command line as the program would, and returns what it prints. */
async function printed(...words: string[]): Promise<string> {
  const program = new Command('testbed').exitOverride().configureOutput({ writeErr: () => undefined, writeOut: () => undefined });
  registerPlan(program);
  registerSchema(program);
  program.commands.forEach((command) => command.exitOverride().configureOutput({ writeErr: () => undefined, writeOut: () => undefined }));
  const write = process.stdout.write.bind(process.stdout);
  let text = '';
  process.stdout.write = ((chunk: string) => { text += chunk; return true; }) as typeof process.stdout.write;
  try {
    await program.parseAsync(words, { from: 'user' });
  } finally {
    process.stdout.write = write;
  }
  return text;
}

describe('testbed plan', () => {
  it('prints the plan of the first run, or of the one asked for', async () => {
    const first = JSON.parse(await printed('plan', 'topologies/parking-lot.yaml')) as Plan;
    assert.deepEqual([first.schema, first.seed, first.varied], [1, 1, { queue: 'pfifo' }]);
    const fifth = JSON.parse(await printed('plan', 'topologies/parking-lot.yaml', '--run', '5')) as Plan;
    assert.deepEqual([fifth.seed, fifth.varied], [2, { queue: 'red' }]);
  });
  it('takes a seed and several settings', async () => {
    const plan = JSON.parse(await printed('plan', 'topologies/dumbbell.yaml', '--seed', '99', '--set', 'queue={kind: codel, target: 2ms}', '--set', 'measure.duration=5s')) as Plan;
    assert.equal(plan.seed, 99);
    assert.equal(plan.durationNs, 5e9);
    assert.deepEqual(plan.links[0]!.forward.queue, { kind: 'codel', in: 'kernel', params: { target: 2e6 } });
  });
  it('prints a shell script of the same network', async () => {
    const script = await printed('plan', 'topologies/dumbbell.yaml', '--format', 'sh');
    assert.match(script, /ip netns add \S*R1/);
    assert.match(script, /fq_codel/);
  });
  it('refuses a seed, a run and a format that are none', async () => {
    await assert.rejects(printed('plan', 'topologies/dumbbell.yaml', '--seed', '-1'), /whole number/);
    await assert.rejects(printed('plan', 'topologies/dumbbell.yaml', '--format', 'xml'), /json/);
    for (const run of [0, 13, NaN]) {
      assert.throws(() => printPlan('topologies/parking-lot.yaml', { format: 'json', set: [], clock: 'virtual', run }), (error) => error instanceof UserError && /expected 1 to 12/.test(error.message));
    }
  });
  it('names every mistake of the file', async () => {
    await assert.rejects(printed('plan', 'topologies/dumbbell.yaml', '--set', 'topology.hosts.S.at=R9', '--set', 'traffic.bulk.cc=5'), (error) => error instanceof ScenarioError && error.problems.length >= 1 && error.exitCode === 2);
  });
});

describe('testbed schema', () => {
  it('prints a JSON Schema, or the table of keys', async () => {
    assert.equal((JSON.parse(await printed('schema')) as { $schema: string }).$schema, 'http://json-schema.org/draft-07/schema#');
    assert.match(await printed('schema', '--format', 'markdown'), /^### The file/);
  });
});
