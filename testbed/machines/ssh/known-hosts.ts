/**
 * Whether a host's key is the one in known_hosts (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT): plain names and patterns,
 * `[host]:port`, hashed names, `@revoked`. Certificate authorities are not followed.
 */

import { createHmac } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { UserError } from '../../errors.js';

export interface KnownKey { readonly type: string; /** The key's blob, base64. */ readonly key: string; readonly revoked: boolean }

export const knownHostsFiles = (): readonly string[] => [path.join(os.homedir(), '.ssh', 'known_hosts'), '/etc/ssh/ssh_known_hosts'];

/** As known_hosts names a host: with its port only where that is not 22. */
export const knownName = (host: string, port: number): string => (port === 22 ? host : `[${host}]:${port}`);

function patternMatches(pattern: string, name: string): boolean {
  const escaped = pattern.replace(/[.+^${}()|[\]\\]/g, '\\$&').replaceAll('*', '.*').replaceAll('?', '.');
  return new RegExp(`^${escaped}$`, 'i').test(name);
}

function namesMatch(field: string, name: string): boolean {
  const hashed = /^\|1\|([^|]+)\|([^|]+)$/.exec(field);
  if (hashed) return createHmac('sha1', Buffer.from(hashed[1]!, 'base64')).update(name).digest('base64') === hashed[2];
  const patterns = field.split(',');
  if (patterns.some((pattern) => pattern.startsWith('!') && patternMatches(pattern.slice(1), name))) return false;
  return patterns.some((pattern) => !pattern.startsWith('!') && patternMatches(pattern, name));
}

/** The keys that the text of known_hosts has for a host. Lines that are none are passed over, as ssh does. */
export function knownKeys(text: string, host: string, port: number): KnownKey[] {
  const name = knownName(host, port);
  return text.split('\n').flatMap((line): KnownKey[] => {
    const words = line.trim().split(/\s+/);
    const marker = words[0]?.startsWith('@') ? words.shift() : undefined;
    const [names, type, key] = words;
    if (names === undefined || type === undefined || key === undefined || names.startsWith('#') || marker === '@cert-authority') return [];
    return namesMatch(names, name) ? [{ type, key, revoked: marker === '@revoked' }] : [];
  });
}

export function readKnownKeys(host: string, port: number, files: readonly string[] = knownHostsFiles()): KnownKey[] {
  return files.filter((file) => existsSync(file)).flatMap((file) => knownKeys(readFileSync(file, 'utf8'), host, port));
}

/** The key's type, from its blob: RFC 4253, section 6.6. */
export function keyType(blob: Buffer): string {
  const length = blob.length >= 4 ? blob.readUInt32BE(0) : 0;
  return blob.subarray(4, 4 + Math.min(length, 64)).toString('latin1');
}

/** @returns null when the key is the known one, else the refusal */
export function refusal(known: readonly KnownKey[], blob: Buffer, host: string, port: number): UserError | null {
  const key = blob.toString('base64');
  const name = knownName(host, port);
  if (known.some((each) => each.revoked && each.key === key)) return new UserError(`${name}: its key is marked @revoked in known_hosts; the connection is refused`, 3);
  const valid = known.filter((each) => !each.revoked);
  if (valid.some((each) => each.key === key)) return null;
  if (valid.some((each) => each.type === keyType(blob))) {
    return new UserError(`${name}: its ${keyType(blob)} key is NOT the one in known_hosts: the host was set up anew, or someone stands between. The connection is refused. If the change is right, remove the old key: ssh-keygen -R '${name}'`, 3);
  }
  return new UserError(`${name}: its host key is not in known_hosts; the connection is refused. Look at the key and add it: ssh-keyscan -t ${keyType(blob).replace(/^ssh-|-nistp\d+$|-sha2$/g, '')}${port === 22 ? '' : ` -p ${port}`} ${host} >> ~/.ssh/known_hosts (or log in once: ssh${port === 22 ? '' : ` -p ${port}`} ${host})`, 3);
}
