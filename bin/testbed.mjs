#!/usr/bin/env node
// `npx testbed …`: the compiled command line, with Node's cache of compiled modules where Node has one (from 22.1).
import { existsSync } from 'node:fs';
import * as module from 'node:module';

const main = new URL('../dist/testbed/cli/main.js', import.meta.url);
if (!existsSync(main)) {
  console.error('testbed is not built yet: npm run setup');
  process.exit(1);
}
module.enableCompileCache?.();
await import(main.href);
