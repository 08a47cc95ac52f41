/** A plan's identity: SHA-256 of its canonical JSON (keys sorted, no spaces), so that equal plans have equal hashes. */

import { createHash, type Hash } from 'node:crypto';
import type { Plan } from './plan.js';

/** @returns 64 hexadecimal digits */
export function planHash(plan: Plan): string {
  const hash = createHash('sha256');
  const buffer: string[] = [];
  write(plan, buffer, hash);
  return hash.update(buffer.join('')).digest('hex');
}

function write(value: unknown, buffer: string[], hash: Hash): void {
  if (buffer.length > 10_000) {
    hash.update(buffer.join(''));
    buffer.length = 0;
  }
  if (Array.isArray(value)) {
    buffer.push('[');
    value.forEach((item, i) => { if (i > 0) buffer.push(','); write(item, buffer, hash); });
    buffer.push(']');
  } else if (typeof value === 'object' && value !== null) {
    buffer.push('{');
    const entries = Object.entries(value).filter(([, item]) => item !== undefined).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    entries.forEach(([key, item], i) => { buffer.push(`${i > 0 ? ',' : ''}${JSON.stringify(key)}:`); write(item, buffer, hash); });
    buffer.push('}');
  } else {
    buffer.push(JSON.stringify(value));
  }
}
