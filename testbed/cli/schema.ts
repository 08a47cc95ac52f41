/** `testbed schema`: the JSON Schema of scenario files, for editors; or the table of keys in docs/scenario.md. */

import { Option, type Command } from 'commander';
import { scenarioJsonSchema, scenarioKeysMarkdown } from '../scenario/json-schema.js';

export function register(program: Command): void {
  program.command('schema')
    .description('print the JSON Schema of scenario files, for editors')
    .addOption(new Option('--format <format>', 'json, or markdown: the table of keys').choices(['json', 'markdown']).default('json'))
    .action((options: { readonly format: 'json' | 'markdown' }) => {
      process.stdout.write(options.format === 'json' ? `${JSON.stringify(scenarioJsonSchema(), null, 2)}\n` : scenarioKeysMarkdown());
    });
}
