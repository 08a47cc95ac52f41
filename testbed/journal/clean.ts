/**
 * Brings a host back to what it was: removes exactly what the journals of dead runs hold and nothing else. A journal whose
 * owner (pid and start time) is alive is left alone, with all it lists.
 */

import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmdirSync, rmSync, statSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { SystemError, umount2 } from '../linux/libc.js';
import { bootId, journalFolder, readJournal, tagVariable, type JournalEntry, type ReadJournal } from './journal.js';
import { mountAt, readMounts } from './mounts.js';
import { allPids, environmentOf, isAlive, networkNamespaceOf, startTimeOf, type ProcessId } from './processes.js';

export interface CleanReport {
  /** What was (or, dry, would be) removed, in words. */
  readonly removed: readonly string[];
  /** What could not be, with the reason. */
  readonly failed: readonly string[];
  /** Tags of runs that are still going. */
  readonly live: readonly string[];
}

const MNT_DETACH = 2;

/** Unmounts everything stacked on `path`. @throws SystemError */
export function unmountAll(path: string): void {
  for (let guard = 0; guard < 16; guard++) {
    try {
      umount2(path, MNT_DETACH);
    } catch (error) {
      if (error instanceof SystemError && (error.code === 'EINVAL' || error.code === 'ENOENT')) return;
      throw error;
    }
  }
}

/** Unmounts a folder that was mounted on itself, unless something is in it or somebody shares it. @returns whether it was there to unmount */
export function unmountUnused(path: string, dryRun = false): boolean {
  if (!existsSync(path) || readdirSync(path).length > 0 || mountAt(path)?.shared !== false) return false;
  if (!dryRun) umount2(path, MNT_DETACH);
  return true;
}

/** Processes of the run: those in the journal, those that carry its tag, those in its namespaces. */
function processesOf(journal: ReadJournal, sameBoot: boolean): ProcessId[] {
  if (!sameBoot) return [];
  const out = new Map<number, ProcessId>();
  for (const entry of journal.open) if (entry.kind === 'process' && isAlive(entry)) out.set(entry.pid, { pid: entry.pid, startTime: entry.startTime });
  const namespaces = new Set(journal.open.flatMap((entry) => {
    if (entry.kind !== 'namespace') return [];
    try {
      const { ino } = statSync(entry.path);
      return mounted.has(entry.path) ? [`net:[${ino}]`] : [];
    } catch {
      return [];
    }
  }));
  const own = networkNamespaceOf(process.pid);
  for (const pid of allPids()) {
    if (pid === process.pid || out.has(pid)) continue;
    const namespace = networkNamespaceOf(pid);
    const inside = namespace !== undefined && namespace !== own && namespaces.has(namespace);
    if (!inside && !environmentOf(pid).includes(`${tagVariable}=${journal.tag}`)) continue;
    const startTime = startTimeOf(pid);
    if (startTime !== undefined) out.set(pid, { pid, startTime });
  }
  return [...out.values()];
}
let mounted = new Set<string>();

const commandOf = (pid: number): string => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').filter(Boolean).slice(0, 3).join(' ').slice(0, 60);
  } catch {
    return '';
  }
};
const sleep = (ms: number): void => { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms); };

/** Ends processes and waits until they are gone, at most 5 s. */
function endProcesses(processes: readonly ProcessId[], failed: string[]): void {
  for (const { pid } of processes) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') failed.push(`process ${pid}: ${(error as Error).message}`);
    }
  }
  for (let waited = 0; waited < 5000 && processes.some(isAlive); waited += 10) sleep(10);
  for (const one of processes.filter(isAlive)) failed.push(`process ${one.pid}: it does not end`);
}

/** Whether a network namespace still is, and this process in it. @throws Error when it is another's */
function standsHere(netns: string): boolean {
  if (networkNamespaceOf(process.pid) === netns) return true;
  const named = existsSync('/run/netns') ? readdirSync('/run/netns').map((name) => `/run/netns/${name}`) : [];
  const file = named.find((path) => `net:[${statSync(path).ino}]` === netns);
  const inside = allPids().find((pid) => networkNamespaceOf(pid) === netns);
  if (file === undefined && inside === undefined) return false;
  throw new Error(`it is in another network namespace; run testbed clean there: nsenter --net=${file ?? `/proc/${inside}/ns/net`} testbed clean`);
}

/** ip(8). @returns what it prints, or undefined when it refuses */
function ip(...words: readonly string[]): string | undefined {
  try {
    return execFileSync('ip', words, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  } catch {
    return undefined;
  }
}

/** One thing; @returns words for what was there, or undefined when it was gone already. */
function remove(entry: JournalEntry, sameBoot: boolean, dryRun: boolean): string | undefined {
  switch (entry.kind) {
    case 'process': return undefined;
    case 'container': throw new Error(`container ${entry.name} is still there (hosts/clean-containers.ts removes it)`);
    case 'namespace': {
      if (!existsSync(entry.path)) return undefined;
      if (!dryRun) {
        if (sameBoot) unmountAll(entry.path);
        unlinkSync(entry.path);
      }
      return `network namespace ${entry.path}`;
    }
    case 'mount': {
      if (!sameBoot || !mounted.has(entry.path)) return undefined;
      if (!dryRun) unmountAll(entry.path);
      return `mount ${entry.path}`;
    }
    case 'unused-mount': return sameBoot && unmountUnused(entry.path, dryRun) ? `mount ${entry.path}` : undefined;
    case 'folder': case 'file': {
      if (!existsSync(entry.path)) return undefined;
      if (!dryRun) rmSync(entry.path, { recursive: entry.kind === 'folder', force: true });
      return `${entry.kind} ${entry.path}`;
    }
    case 'empty-folder': {
      if (!existsSync(entry.path) || readdirSync(entry.path).length > 0) return undefined;
      if (!dryRun) rmdirSync(entry.path);
      return `empty folder ${entry.path}`;
    }
    case 'rule': {
      if (!sameBoot || !standsHere(entry.netns)) return undefined;
      const word = entry.words[entry.words.indexOf('lookup') + 1] ?? '';
      const table = word === 'main' ? '254' : word;
      const device = entry.words[entry.words.indexOf('iif') + 1] ?? '';
      const there = (ip(`-${entry.family}`, '-N', 'rule', 'show') ?? '').split('\n').some((line) => line.includes(`iif ${device} `) && line.includes(`lookup ${table}`) && line.startsWith(`${entry.words[1]}:`));
      if (!there) return undefined;
      if (!dryRun && ip(`-${entry.family}`, 'rule', 'del', ...entry.words) === undefined) throw new Error('ip does not delete it');
      return `IPv${entry.family} rule ${entry.words.join(' ')}`;
    }
    case 'device-group': {
      if (!sameBoot || !standsHere(entry.netns)) return undefined;
      const [link] = JSON.parse(ip('-N', '-j', 'link', 'show', 'dev', entry.device) ?? '[]') as { readonly group?: string }[];
      if (Number(link?.group) !== entry.ours) return undefined;
      if (!dryRun && ip('link', 'set', 'dev', entry.device, 'group', String(entry.before)) === undefined) throw new Error(`the group of ${entry.device} cannot be set back`);
      return `group of device ${entry.device}`;
    }
    case 'sysctl': {
      if (!sameBoot || !existsSync(entry.path) || !standsHere(entry.netns) || readFileSync(entry.path, 'latin1').trim() !== entry.ours) return undefined;
      if (!dryRun) writeFileSync(entry.path, entry.before);
      return `${entry.path} = ${entry.ours}`;
    }
    default: throw new Error(`unknown kind ${JSON.stringify(entry)}; a newer testbed wrote this journal`);
  }
}

export function clean({ dryRun = false, folder = journalFolder() }: { readonly dryRun?: boolean; readonly folder?: string } = {}): CleanReport {
  const removed: string[] = [];
  const failed: string[] = [];
  const live: string[] = [];
  const files = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith('.jsonl')).sort() : [];
  for (const name of files) {
    const path = join(folder, name);
    const before = failed.length;
    let journal: ReadJournal | undefined;
    try {
      journal = readJournal(path);
    } catch (error) {
      failed.push(`journal ${path}: ${(error as Error).message}`);
      continue;
    }
    if (journal === undefined) {
      // Its owner died before the first line was whole: nothing was made yet. A file that is not ours has another shape.
      if (statSync(path).size === 0 && Date.now() - statSync(path).mtimeMs > 1000 && !dryRun) unlinkSync(path);
      continue;
    }
    const sameBoot = journal.bootId === bootId();
    if (sameBoot && isAlive(journal.owner)) {
      live.push(journal.tag);
      continue;
    }
    mounted = new Set(readMounts().map(({ path }) => path));
    const processes = processesOf(journal, sameBoot);
    for (const { pid } of processes) removed.push(`process ${pid} (${commandOf(pid)})`);
    if (!dryRun) endProcesses(processes, failed);
    for (const entry of [...journal.open].reverse()) {
      try {
        const what = remove(entry, sameBoot, dryRun);
        if (what !== undefined) removed.push(what);
      } catch (error) {
        failed.push(`${'path' in entry ? entry.path : entry.kind}: ${(error as Error).message}`);
      }
    }
    if (!dryRun && failed.length === before) unlinkSync(path);
  }
  return { removed, failed, live };
}
