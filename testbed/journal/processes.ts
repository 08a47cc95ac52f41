/** Which process is which (proc(5)): a pid names a process only together with its start time, for pids come round again. */

import { readFileSync, readdirSync, readlinkSync } from 'node:fs';

export interface ProcessId { readonly pid: number; /** Clock ticks after boot, field 22 of /proc/PID/stat. */ readonly startTime: number }

/** undefined when there is no such process, or only its zombie. */
export function startTimeOf(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' || fields[0] === 'X' ? undefined : Number(fields[19]);
  } catch {
    return undefined;
  }
}
export const isAlive = ({ pid, startTime }: ProcessId): boolean => startTimeOf(pid) === startTime;
export function ownId(): ProcessId {
  return { pid: process.pid, startTime: startTimeOf(process.pid) ?? 0 };
}
export function allPids(): number[] {
  return readdirSync('/proc').filter((name) => /^\d+$/.test(name)).map(Number);
}
/** `net:[4026531840]`; undefined without permission or process. */
export function networkNamespaceOf(pid: number): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/ns/net`);
  } catch {
    return undefined;
  }
}
export function environmentOf(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0');
  } catch {
    return [];
  }
}
