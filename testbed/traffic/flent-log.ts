/**
 * What flent says of programs that failed (flent/loggers.py): blocks of a warning, the runner's class, its command,
 * its return code, and what it wrote to stdout and stderr.
 */

export interface FailedRunner { readonly command: string; /** In the program's own words, one line. */ readonly said: string }

/** @param text flent's output, stdout and stderr */
export function failedRunners(text: string): FailedRunner[] {
  const failed: FailedRunner[] = [];
  for (const block of text.split(/^(?=WARNING: |ERROR: |Runner class: )/m)) {
    const command = /^Command: (.*)$/m.exec(block)?.[1];
    if (command === undefined) continue;
    const part = (name: string): string => new RegExp(`^${name}: ([\\s\\S]*?)(?=^(?:Stdout|Stderr): |(?![\\s\\S]))`, 'm').exec(block)?.[1]?.trim() ?? '';
    const returned = /^Return code: (.*)$/m.exec(block)?.[1] ?? '?';
    const words = (part('Stderr') || part('Stdout')).split('\n').map((line) => line.trim()).filter((line) => line !== '' && !/^Traceback|^File "/.test(line));
    failed.push({ command, said: words.length > 0 ? words.slice(0, 3).join(' ').slice(0, 300).replace(/[.\s]+$/, '') : `return code ${returned}, without a word` });
  }
  return failed;
}

/** flent's last warning or error, or its last line. */
export function lastComplaint(text: string): string {
  const lines = text.split('\n').map((line) => line.trim()).filter((line) => line !== '');
  const complaint = lines.filter((line) => /^(?:ERROR|WARNING|CRITICAL|\w*Error): /.test(line)).at(-1) ?? lines.at(-1) ?? '';
  return complaint.slice(0, 300).replace(/[.\s]+$/, '');
}
