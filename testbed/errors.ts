/** An error a user can cause and mend. Its message says what, where and how; the CLI prints it without a stack and exits with `exitCode`. */
export class UserError extends Error {
  constructor(message: string, readonly exitCode = 1, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}
/** A mistake in a scenario file: `file:line: field: what (value); expected …`. */
export class ScenarioError extends UserError {
  constructor(readonly problems: readonly { readonly file: string; readonly line: number | null; readonly field: string; readonly message: string }[]) {
    super(problems.map((p) => `${p.file}${p.line === null ? '' : `:${p.line}`}: ${p.field ? `${p.field}: ` : ''}${p.message}`).join('\n'), 2);
  }
}
