/** What the programs behind npm's scripts say of a mistake of their user: its message, where Node would show a stack. */

import { UserError } from './errors.js';

/** For a whole program, before it looks at its options (parseArgs of node:util). */
export function plainMistakes(): void {
  process.on('uncaughtException', (error: NodeJS.ErrnoException) => {
    const ofOptions = error.code?.startsWith('ERR_PARSE_ARGS') ?? false;
    const mistake = ofOptions || error instanceof UserError;
    process.stderr.write(`${mistake ? error.message : error.stack ?? String(error)}\n`);
    process.exit(ofOptions ? 2 : error instanceof UserError ? error.exitCode : 70);
  });
}
