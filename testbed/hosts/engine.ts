/**
 * The container engine of this machine, Docker or podman by its Docker-compatible socket: DOCKER_HOST, else the current
 * Docker context, else the usual sockets. Only a local socket will do: the hosts' namespaces are entered from here.
 */

import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import Docker from 'dockerode';
import { UserError } from '../errors.js';

export interface Engine {
  readonly docker: Docker;
  readonly socket: string;
  /** `Docker 20.10.24`, `podman 4.3.1`. */
  readonly name: string;
}

function contextSocket(): string | undefined {
  const folder = process.env['DOCKER_CONFIG'] ?? path.join(os.homedir(), '.docker');
  try {
    const name = process.env['DOCKER_CONTEXT'] ?? (JSON.parse(readFileSync(path.join(folder, 'config.json'), 'utf8')) as { currentContext?: string }).currentContext;
    if (name === undefined || name === '' || name === 'default') return undefined;
    const meta = path.join(folder, 'contexts', 'meta', createHash('sha256').update(name).digest('hex'), 'meta.json');
    return (JSON.parse(readFileSync(meta, 'utf8')) as { Endpoints?: { docker?: { Host?: string } } }).Endpoints?.docker?.Host;
  } catch {
    return undefined; // no configuration: the usual sockets
  }
}

/** Path of the engine's socket. @throws UserError when none is there, or it is on another machine */
export function engineSocket(): string {
  const named = process.env['DOCKER_HOST'] || contextSocket();
  if (named !== undefined) {
    if (!named.startsWith('unix://')) throw new UserError(`the container engine is ${named}: containers must be on the machine that runs the plan, as their namespaces are entered from it; use a unix:// socket, or --machine ssh://… to that machine`, 3);
    return named.slice('unix://'.length);
  }
  const runtime = process.env['XDG_RUNTIME_DIR'];
  const usual = ['/var/run/docker.sock', ...(runtime ? [`${runtime}/docker.sock`, `${runtime}/podman/podman.sock`] : []), '/run/podman/podman.sock'];
  const found = usual.find((file) => existsSync(file));
  if (found === undefined) throw new UserError(`no container engine: none of ${usual.join(', ')} is there; install one (apt-get install --no-install-recommends docker.io), start it, or name its socket in DOCKER_HOST`, 3);
  return found;
}

/** Connects and asks its version. @param timeoutMs of each question @throws UserError: nobody answers, no permission */
export async function openEngine(socket: string = engineSocket(), timeoutMs = 120_000): Promise<Engine> {
  const docker = new Docker({ socketPath: socket, timeout: timeoutMs });
  try {
    const version = await docker.version() as { Version?: string; Components?: { Name?: string; Version?: string }[] };
    const podman = version.Components?.find(({ Name }) => /podman/i.test(Name ?? ''));
    return { docker, socket, name: podman ? `podman ${podman.Version ?? ''}` : `Docker ${version.Version ?? ''}` };
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === 'EACCES' || code === 'EPERM') throw new UserError(`no permission for the container engine's socket ${socket}: join its group (usermod -aG docker USER, then log in again) or run as root`, 3);
    if (code === 'ENOENT' || code === 'ECONNREFUSED' || code === 'ENOTSOCK') throw new UserError(`the container engine does not answer at ${socket} (${code}): start it (systemctl start docker), or name another socket in DOCKER_HOST`, 3);
    throw new UserError(`the container engine at ${socket}: ${(error as Error).message}`, 3);
  }
}
