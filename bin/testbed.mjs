#!/usr/bin/env node
// `npx testbed …`: the command line as set-up bundled it, or the compiled files where they are newer (a build by hand).
import { statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

const url = (name) => new URL(`../dist/${name}`, import.meta.url);
const changed = (name) => statSync(url(name), { throwIfNoEntry: false })?.mtimeMs ?? 0;
const [bundle, compiled] = ['bundle/testbed/cli/main.js', 'testbed/cli/main.js'];
// tsc leaves files alone that stay the same, but not its own.
const compiledAt = changed(compiled) && Math.max(changed(compiled), changed('.tsbuildinfo'));
if (changed(bundle) === 0 && compiledAt === 0) {
  console.error('testbed is not built yet: npm run setup');
  process.exit(1);
}
process.on('beforeExit', () => process.exit()); // all is written: without taking the heap apart
if (changed(bundle) >= compiledAt) {
  const command = process.argv[2] ?? '';
  createRequire(import.meta.url)('./cached.cjs').run(fileURLToPath(url('bundle')), 'testbed/cli/main.js', /^[a-z]+$/.test(command) ? command : 'any');
} else {
  await import(url(compiled).href);
}
