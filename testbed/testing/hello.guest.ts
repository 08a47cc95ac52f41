/** What guest.test.ts runs in a guest. */

import { readFileSync } from 'node:fs';

console.log(JSON.stringify({ release: readFileSync('/proc/sys/kernel/osrelease', 'utf8').trim(), args: process.argv.slice(2), variable: process.env['VARIABLE'] ?? null }));
process.exitCode = process.argv[2] === 'fail' ? 3 : 0;
