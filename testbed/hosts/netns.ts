/**
 * Nodes as network namespaces of the calling thread (unshare, setns), each kept by a bind mount in /run/netns as ip-netns(8) does, so that
 * `ip netns exec TAG-NAME …` works while a run goes.
 */

import { closeSync, existsSync, mkdirSync, openSync, readdirSync, rmdirSync, unlinkSync } from 'node:fs';
import { UserError } from '../errors.js';
import { unmountAll, unmountUnused } from '../journal/clean.js';
import type { Journal } from '../journal/journal.js';
import { mountAt } from '../journal/mounts.js';
import { close, mount, SystemError, unshare } from '../linux/libc.js';
import type { Hosts, NodeName } from './hosts.js';
import { here, openNamespace, type ThreadNamespace, threadNamespace } from './thread-namespace.js';

const CLONE_NEWNET = 0x40000000;
const MS_BIND = 4096;
const MS_PRIVATE = 1 << 18;
export const netnsFolder = '/run/netns';

interface Made { readonly path: string; readonly fd: number; readonly journalId: number | undefined }

/**
 * @param journal null inside a guest, which vanishes as a whole
 * @param thread closed by `remove`
 */
export function netnsHosts(tag: string, journal: Journal | null, thread: ThreadNamespace = threadNamespace()): Hosts {
  const made = new Map<string, Made>();
  const pending = new Map<string, number>();
  let folderId: number | undefined;
  let mountId: number | undefined;
  let madeFolder = false;

  const pathOf = ({ netns }: NodeName): string => `${netnsFolder}/${tag}-${netns}`;
  function make(node: NodeName, journalId: number | undefined): void {
    const path = pathOf(node);
    closeSync(openSync(path, 'wx', 0o444));
    try {
      unshare(CLONE_NEWNET);
      mount(here, path, 'none', MS_BIND, null);
    } catch (error) {
      unlinkSync(path);
      if (journalId !== undefined) journal?.removed(journalId);
      if (error instanceof SystemError) throw new UserError(`cannot make the network namespace of ${node.node}: ${error.message}; run as root, or use --machine uml`, 1, { cause: error });
      throw error;
    }
    made.set(node.node, { path, fd: openNamespace(here), journalId });
  }
  const entryOf = (node: string): Made => {
    const one = made.get(node);
    if (one === undefined) throw new Error(`no node ${node}`);
    return one;
  };

  return {
    kind: 'netns',
    create: (nodes, inside) => {
      if (!existsSync(netnsFolder)) {
        folderId = journal?.add({ kind: 'empty-folder', path: netnsFolder })[0];
        mkdirSync(netnsFolder, { mode: 0o755 });
        madeFolder = true;
      }
      // Where the folder is no mount, the first `ip netns add` of anybody mounts it on itself, with all that is in it: what we mounted would then be below
      // and could not be unmounted. Done before by us, ip leaves it as it is.
      if (journal !== null && mountAt(netnsFolder) === null) {
        mountId = journal.add({ kind: 'unused-mount', path: netnsFolder })[0];
        mount(netnsFolder, netnsFolder, 'none', MS_BIND, null);
        mount('none', netnsFolder, 'none', MS_PRIVATE, null);
      }
      for (const node of nodes) {
        if (existsSync(pathOf(node))) throw new UserError(`the network namespace ${tag}-${node.netns} of ${node.node} is there already; run testbed clean, or end the run that uses it`);
      }
      const ids = journal?.add(...nodes.map((node) => ({ kind: 'namespace' as const, path: pathOf(node) })));
      nodes.forEach((node, index) => { if (ids) pending.set(node.node, ids[index]!); });
      thread.away('new nodes', () => {
        nodes.forEach((node, index) => {
          make(node, ids?.[index]);
          pending.delete(node.node);
          inside(node.node);
        });
      });
    },
    inside: (node, call) => thread.inside(entryOf(node).fd, node, call),
    namespaceFd: (node) => entryOf(node).fd,
    namespacePath: (node) => entryOf(node).path,
    command: (_node, words) => words,
    remove: () => {
      const ids: number[] = [...pending.values()];
      for (const { path, fd, journalId } of made.values()) {
        close(fd);
        unmountAll(path);
        unlinkSync(path);
        if (journalId !== undefined) ids.push(journalId);
      }
      made.clear();
      pending.clear();
      journal?.removed(...ids);
      // Also when another run mounted it, which has ended since.
      if (journal !== null) unmountUnused(netnsFolder);
      if (mountId !== undefined) journal?.removed(mountId);
      mountId = undefined;
      if (madeFolder && existsSync(netnsFolder) && readdirSync(netnsFolder).length === 0) rmdirSync(netnsFolder);
      if (folderId !== undefined) journal?.removed(folderId);
      madeFolder = false;
      thread.close();
    },
  };
}
