/**
 * Which core a guest is pinned to. A guest is one busy process; left to wander, or two on one core, it is slower
 * (not different: in virtual time results do not depend on it). Guests of this process take different cores; among
 * those left the one idlest just now is taken, so that other processes' guests are avoided too.
 */

import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

const taken = new Map<number, number>();

/** Cores of a list such as `0-3,8`. */
export function parseCoreList(list: string): number[] {
  return list.trim().split(',').flatMap((part) => {
    const [first, last] = part.split('-').map(Number) as [number, number | undefined];
    return Array.from({ length: (last ?? first) - first + 1 }, (_, i) => first + i);
  });
}

const allowedCores = (): number[] => parseCoreList(/^Cpus_allowed_list:\s*(\S+)/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0');

function idleTicks(): Map<number, number> {
  const ticks = new Map<number, number>();
  for (const match of readFileSync('/proc/stat', 'utf8').matchAll(/^cpu(\d+) (.*)$/gm)) {
    const fields = match[2]!.trim().split(/\s+/).map(Number);
    ticks.set(Number(match[1]), (fields[3] ?? 0) + (fields[4] ?? 0));
  }
  return ticks;
}

/** Takes a core until `release`; several guests on one core only when there are more guests than cores. */
export async function takeCore(wanted?: number): Promise<{ readonly core: number; release(): void }> {
  let core = wanted;
  if (core === undefined) {
    const cores = allowedCores();
    const before = idleTicks();
    if (cores.length > 1) await sleep(50);
    const after = idleTicks();
    const idle = (each: number): number => (after.get(each) ?? 0) - (before.get(each) ?? 0);
    cores.sort((a, b) => (taken.get(a) ?? 0) - (taken.get(b) ?? 0) || idle(b) - idle(a) || a - b);
    core = cores[0] ?? 0;
  }
  const mine = core;
  taken.set(mine, (taken.get(mine) ?? 0) + 1);
  return { core: mine, release: () => { taken.set(mine, taken.get(mine)! - 1); } };
}
