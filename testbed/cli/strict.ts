/** What commander lets pass and a user does not expect: an option given twice, of which the last would silently win; an empty value, as of a shell's variable that is not set. */

import type { Command, Option } from 'commander';

/** Options that may be repeated begin as an empty list. */
const repeatable = (option: Option): boolean => Array.isArray(option.defaultValue);

const takesValue = (option: Option): boolean => option.required || option.optional;

/** Makes the command and those below it refuse these, and point at their own --help after a mistake. */
export function strict(command: Command): void {
  const name = pathOf(command);
  command.showHelpAfterError(`(see: ${name} --help)`);
  for (const option of command.options) {
    if (!takesValue(option)) continue;
    let before: string | null = null;
    command.on(`option:${option.name()}`, (value: string) => {
      if (value === '') command.error(`error: option '${option.flags}' is given nothing: an empty value`);
      if (before !== null && !repeatable(option)) command.error(`error: option '${option.flags}' is given twice (${before}, ${value}); expected once${instead(command, option)}`);
      before = value;
    });
  }
  for (const below of command.commands) strict(below);
}

/** How to say what was meant. */
function instead(command: Command, option: Option): string {
  return option.name() === 'seed' && command.options.some(({ long }) => long === '--set') ? "; several seeds are --set 'seeds=[1, 2]'" : '';
}

function pathOf(command: Command): string {
  return command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`;
}
