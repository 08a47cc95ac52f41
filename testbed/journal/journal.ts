/**
 * The journal of a run: everything it makes on a host outside a guest is written here, and on disk, before it is made, and struck out
 * after it is gone. So after any crash `clean` (clean.ts) knows exactly what is ours. One file a run, JSON lines:
 * first the owner, then entries and removals. Root's journals lie in /run/testbed, others' in $XDG_RUNTIME_DIR/testbed or ~/.cache/testbed/journal.
 *
 *     const journal = openJournal('a1b2c3d4');
 *     const [id] = journal.add({ kind: 'folder', path: '/tmp/testbed-a1b2c3d4' });
 *     mkdirSync('/tmp/testbed-a1b2c3d4'); … rmSync(…);
 *     journal.removed(id);
 *     journal.close();
 *
 * A process can only be added once it exists. Start it with `journal.environment` in its environment: `clean` finds it by that too.
 */

import { appendFileSync, closeSync, fsyncSync, mkdirSync, openSync, readFileSync, unlinkSync, writeSync } from 'node:fs';
import { homedir } from 'node:os';
import { basename, isAbsolute, join, normalize } from 'node:path';
import { ownId, startTimeOf, type ProcessId } from './processes.js';

export type JournalEntry =
  /** A network namespace's file in /run/netns: bind mount and file. */
  | { readonly kind: 'namespace'; readonly path: string }
  | { readonly kind: 'process'; readonly pid: number; readonly startTime: number }
  /** Removed with all it contains: its own name must contain the run's tag. */
  | { readonly kind: 'folder'; readonly path: string }
  /** A folder that must only go if it is empty and was not there before. */
  | { readonly kind: 'empty-folder'; readonly path: string }
  | { readonly kind: 'file'; readonly path: string }
  /** A folder mounted on itself: unmounted when nothing is in it and nobody shares it. */
  | { readonly kind: 'unused-mount'; readonly path: string }
  | { readonly kind: 'mount'; readonly path: string }
  /** A policy routing rule, by the words `ip rule del` takes after the family; they hold a table number of our own. In the network namespace `netns` (`net:[…]`). */
  | { readonly kind: 'rule'; readonly family: 4 | 6; readonly words: readonly string[]; readonly netns: string }
  /** A device whose group was `before` and is set to `ours`: set back where it still is. */
  | { readonly kind: 'device-group'; readonly device: string; readonly before: number; readonly ours: number; readonly netns: string }
  /** A file below /proc/sys/net whose value was `before` and is set to `ours`: set back where it still is. */
  | { readonly kind: 'sysctl'; readonly path: string; readonly before: string; readonly ours: string; readonly netns: string }
  /** A container of the engine behind `socket`; it must carry the run's label (hosts/docker.ts). */
  | { readonly kind: 'container'; readonly name: string; readonly socket: string };

export interface JournalOwner { readonly tag: string; readonly owner: ProcessId; readonly bootId: string }

/** Set in the environment of processes we start. */
export const tagVariable = 'TESTBED_TAG';

export function journalFolder(): string {
  if (process.env['TESTBED_JOURNAL']) return process.env['TESTBED_JOURNAL'];
  if (process.getuid?.() === 0) return '/run/testbed';
  const runtime = process.env['XDG_RUNTIME_DIR'];
  return runtime ? join(runtime, 'testbed') : join(homedir(), '.cache', 'testbed', 'journal');
}
/** Changes with every boot: what a journal of another boot lists is gone, except files and folders. */
export function bootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim();
  } catch {
    return '';
  }
}

export interface Journal {
  readonly tag: string;
  readonly path: string;
  /** For processes started by this run. */
  readonly environment: Readonly<Record<string, string>>;
  /** Written and synced when it returns; only then make the things. @returns their ids, in order */
  add(...entries: readonly JournalEntry[]): number[];
  /** A process just started. */
  addProcess(pid: number): number;
  removed(...ids: readonly number[]): void;
  /** Ids not yet struck out. */
  readonly open: ReadonlyMap<number, JournalEntry>;
  /** Deletes the file if everything was removed; otherwise leaves it for `clean`. */
  close(): void;
}

function check(entry: JournalEntry, tag: string): void {
  if (entry.kind === 'process' || entry.kind === 'container' || entry.kind === 'rule' || entry.kind === 'device-group') return;
  if (!isAbsolute(entry.path) || normalize(entry.path) !== entry.path) throw new Error(`journal: ${entry.path} is not a plain absolute path`);
  if (entry.kind === 'folder' && !basename(entry.path).includes(tag)) throw new Error(`journal: the folder ${entry.path} must carry the tag ${tag} in its name`);
}

/** @param tag of the run, `[a-z0-9]{8}` */
export function openJournal(tag: string, folder = journalFolder()): Journal {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const path = join(folder, `${tag}-${process.pid}.jsonl`);
  const file = openSync(path, 'wx', 0o600);
  const write = (...lines: readonly unknown[]): void => {
    const data = Buffer.from(lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
    for (let at = 0; at < data.length;) at += writeSync(file, data, at);
    fsyncSync(file);
  };
  write({ tag, owner: ownId(), bootId: bootId() } satisfies JournalOwner);
  const open = new Map<number, JournalEntry>();
  let next = 1;
  const journal: Journal = {
    tag, path, open, environment: { [tagVariable]: tag },
    add: (...entries) => {
      for (const entry of entries) check(entry, tag);
      const ids = entries.map(() => next++);
      write(...entries.map((entry, index) => ({ id: ids[index], ...entry })));
      entries.forEach((entry, index) => open.set(ids[index]!, entry));
      return ids;
    },
    addProcess: (pid) => journal.add({ kind: 'process', pid, startTime: startTimeOf(pid) ?? 0 })[0]!,
    removed: (...ids) => {
      if (ids.length === 0) return;
      write({ removed: ids });
      for (const id of ids) open.delete(id);
    },
    close: () => {
      closeSync(file);
      if (open.size === 0) unlinkSync(path);
    },
  };
  return journal;
}

export interface ReadJournal extends JournalOwner { readonly path: string; /** In the order they were made. */ readonly open: readonly JournalEntry[]; /** The same with their ids. */ readonly entries: readonly { readonly id: number; readonly entry: JournalEntry }[] }

/** undefined for a file that is no journal. A last line cut by a crash is passed over: what it was to say was not yet made. */
export function readJournal(path: string): ReadJournal | undefined {
  const lines = readFileSync(path, 'utf8').split('\n').flatMap((line): Record<string, unknown>[] => {
    try {
      const value: unknown = JSON.parse(line);
      return typeof value === 'object' && value !== null ? [value as Record<string, unknown>] : [];
    } catch {
      return [];
    }
  });
  const [header, ...rest] = lines;
  if (header === undefined || typeof header['tag'] !== 'string' || typeof header['owner'] !== 'object') return undefined;
  const open = new Map<number, JournalEntry>();
  for (const line of rest) {
    if (Array.isArray(line['removed'])) for (const id of line['removed']) open.delete(Number(id));
    else if (typeof line['id'] === 'number') {
      const { id, ...entry } = line;
      open.set(id as number, entry as unknown as JournalEntry);
    }
  }
  return { ...(header as unknown as JournalOwner), path, open: [...open.values()], entries: [...open].map(([id, entry]) => ({ id, entry })) };
}

/** Strikes entries out of the journal of a dead run: they are gone. */
export function strikeOut(path: string, ids: readonly number[]): void {
  appendFileSync(path, `\n${JSON.stringify({ removed: ids })}\n`);
}
