/** Removes the containers of dead runs: those their journals list, and only when they carry the run's label. */

import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { bootId, journalFolder, readJournal, strikeOut } from '../journal/journal.js';
import { isAlive } from '../journal/processes.js';
import { labels } from './containers.js';
import { openEngine } from './engine.js';

/** Before `clean` of journal/clean.ts, which takes what is left. @returns what was (or, dry, would be) removed, and what could not be */
export async function cleanContainers({ dryRun = false, folder = journalFolder() }: { readonly dryRun?: boolean; readonly folder?: string } = {}): Promise<{ readonly removed: readonly string[]; readonly failed: readonly string[] }> {
  const removed: string[] = [];
  const failed: string[] = [];
  for (const name of existsSync(folder) ? readdirSync(folder).filter((each) => each.endsWith('.jsonl')).sort() : []) {
    const path = join(folder, name);
    let journal;
    try {
      journal = readJournal(path);
    } catch {
      continue; // clean tells
    }
    if (journal === undefined || (journal.bootId === bootId() && isAlive(journal.owner))) continue;
    for (const { id, entry } of journal.entries) {
      if (entry.kind !== 'container') continue;
      try {
        const { docker } = await openEngine(entry.socket);
        const container = docker.getContainer(entry.name);
        const there = await container.inspect().catch((error: { statusCode?: number }) => {
          if (error.statusCode === 404) return null;
          throw error;
        });
        if (there !== null && there.Config.Labels[labels.tag] !== journal.tag) {
          failed.push(`container ${entry.name}: it does not carry the label of run ${journal.tag}, so it is not ours`);
          continue;
        }
        if (there !== null) {
          if (!dryRun) await container.remove({ force: true, v: true });
          removed.push(`container ${entry.name}`);
        }
        if (!dryRun) strikeOut(path, [id]);
      } catch (error) {
        failed.push(`container ${entry.name}: ${(error as Error).message}; if that engine is gone for good, with its containers, remove ${path}`);
      }
    }
  }
  return { removed, failed };
}
