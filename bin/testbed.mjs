#!/usr/bin/env node
// `npx testbed …`: the command line as set-up bundled it, or the compiled files where they are newer (a build by hand).
import { statSync } from 'node:fs';
import * as module from 'node:module';

const file = (name) => {
  const url = new URL(`../dist/${name}`, import.meta.url);
  return { url, changed: statSync(url, { throwIfNoEntry: false })?.mtimeMs ?? 0 };
};
const [bundle, compiled] = [file('bundle/testbed/cli/main.js'), file('testbed/cli/main.js')];
if (bundle.changed === 0 && compiled.changed === 0) {
  console.error('testbed is not built yet: npm run setup');
  process.exit(1);
}
module.enableCompileCache?.(); // Node's cache of compiled modules, from 22.1
await import((bundle.changed >= compiled.changed ? bundle : compiled).url.href);
