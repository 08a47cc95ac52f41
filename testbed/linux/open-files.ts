/** The limit of open files of this process (RLIMIT_NOFILE, getrlimit(2)). */

import { SystemError, stable, tryPrlimit } from './libc.js';

const RLIMIT_NOFILE = 7;

/** Raises the limit to `wanted`, beyond the hard limit where that is allowed (CAP_SYS_RESOURCE). @returns the limit now */
export function raiseOpenFiles(wanted: number): number {
  const limit = stable(16);
  const result = tryPrlimit(0, RLIMIT_NOFILE, null, limit);
  if (result < 0) throw new SystemError('prlimit', -result);
  const soft = Number(limit.readBigUInt64LE(0));
  const hard = Number(limit.readBigUInt64LE(8));
  if (soft >= wanted) return soft;
  for (const [newSoft, newHard] of [[wanted, Math.max(wanted, hard)], [Math.min(wanted, hard), hard]] as const) {
    limit.writeBigUInt64LE(BigInt(newSoft), 0);
    limit.writeBigUInt64LE(newHard >= 2 ** 63 ? 2n ** 64n - 1n : BigInt(newHard), 8);
    if (tryPrlimit(0, RLIMIT_NOFILE, limit, null) === 0) return newSoft;
  }
  return soft;
}
