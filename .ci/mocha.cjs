// All compiled tests, the quick ones first: those that boot guests or build kernels come last.
const { readdirSync } = require('node:fs');
const path = require('node:path');
const slow = [/^kernel\//, /^testbed\/machines\//, /^testbed\/cli\//, /^testbed\/rules\//];

function* testsBelow(folder) {
  let entries = [];
  try {
    entries = readdirSync(path.join(__dirname, '..', folder), { withFileTypes: true });
  } catch {
    // not built
  }
  for (const entry of entries) {
    const name = path.join(folder, entry.name);
    if (entry.isDirectory() && entry.name !== 'node_modules') yield* testsBelow(name);
    else if (entry.name.endsWith('.test.js')) yield name;
  }
}

const weight = (file) => slow.findIndex((pattern) => pattern.test(path.relative('dist', file))) + 1;

module.exports = {
  require: [path.join(__dirname, 'fuzz.mjs')],
  spec: [...testsBelow('dist')].sort((a, b) => weight(a) - weight(b) || a.localeCompare(b)),
  timeout: 120_000, // a bound on hangs: machines differ, and no test is about speed
};
