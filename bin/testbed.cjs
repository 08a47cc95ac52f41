#!/usr/bin/env node
// `npx testbed …`: the command line as set-up bundled it, or the compiled files where they are newer (a build by hand).
// CommonJS: Node's loader of ES modules would take a tenth of a short command's time.
'use strict';

const { statSync } = require('node:fs');
const path = require('node:path');
const { pathToFileURL } = require('node:url');

const file = (name) => path.join(__dirname, '..', 'dist', name);
const changed = (name) => statSync(file(name), { throwIfNoEntry: false })?.mtimeMs ?? 0;
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
  require('./cached.cjs').run(file('bundle'), 'testbed/cli/main.js', /^[a-z]+$/.test(command) ? command : 'any');
} else {
  import(pathToFileURL(file(compiled)).href).catch((error) => {
    console.error(error);
    process.exit(1);
  });
}
