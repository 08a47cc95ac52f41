/** Where an ssh machine is: `ssh://user@host:port`, or its entry in testbed.config.yaml. */

import * as os from 'node:os';
import { UserError } from '../../errors.js';

export interface SshTarget {
  readonly user: string;
  /** Name or address, without brackets. */
  readonly host: string;
  readonly port: number;
  /** Private key file; absent: ssh-agent, then the usual files in ~/.ssh. */
  readonly key?: string;
  /** Node's program there; absent: the first in its PATH. */
  readonly node?: string;
}

/**
 * @param rest what follows `ssh:` in `--machine ssh://user@host:port`
 * @throws UserError for anything else
 */
export function parseTarget(rest: string): SshTarget {
  const match = /^\/\/(?:([A-Za-z0-9_][A-Za-z0-9._-]*)@)?(?:\[([0-9A-Fa-f:.]+(?:%[A-Za-z0-9._-]+)?)\]|([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?))(?::(\d{1,5}))?\/?$/.exec(rest);
  const port = Number(match?.[4] ?? 22);
  if (match === null || port < 1 || port > 65535) {
    throw new UserError(`machine ${JSON.stringify(`ssh:${rest}`)}: expected ssh://user@host or ssh://user@host:port (an IPv6 address in brackets); a password has no place here, use a key or ssh-agent`, 2);
  }
  return { user: match[1] ?? os.userInfo().username, host: (match[2] ?? match[3])!, port };
}

/** `ssh://user@host:port`, with the port only where it is not 22. */
export const formatTarget = ({ user, host, port }: SshTarget): string => `ssh://${user}@${host.includes(':') ? `[${host}]` : host}${port === 22 ? '' : `:${port}`}`;
