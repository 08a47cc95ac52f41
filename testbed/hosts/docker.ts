/**
 * Nodes in containers (containers.ts). The network is made from outside, by the containers' namespaces, exactly as for netns; the
 * programs of a host (iperf3, ping) run in its container. What is no node of the plan (the wires) stays a namespace.
 */

import { readlinkSync } from 'node:fs';
import { UserError } from '../errors.js';
import type { Journal } from '../journal/journal.js';
import { close } from '../linux/libc.js';
import type { Hosts } from './hosts.js';
import { netnsHosts } from './netns.js';
import { here, openNamespace, threadNamespace } from './thread-namespace.js';

/** What the environment says of this machine's folders does not hold in the container. */
const inContainer = 'unset TMPDIR HOME; exec "$@"';

/** @param pids first process of each node's container, by node */
export function dockerHosts(pids: ReadonlyMap<string, number>, tag: string, journal: Journal | null): Hosts {
  const thread = threadNamespace();
  const others = netnsHosts(tag, journal, thread);
  const fds = new Map<string, number>();
  const pathOf = (node: string): string => `/proc/${pids.get(node)!}/ns/net`;
  return {
    kind: 'docker',
    create: (nodes, inside) => {
      for (const { node } of nodes) {
        if (!pids.has(node)) continue;
        const fd = openNamespace(pathOf(node));
        fds.set(node, fd);
        if (readlinkSync(pathOf(node)) === readlinkSync(here)) throw new UserError(`the container of ${node} has no network namespace of its own; is the engine told to use the host's?`, 1);
        thread.inside(fd, node, () => { inside(node); });
      }
      others.create(nodes.filter(({ node }) => !pids.has(node)), inside);
    },
    inside: (node, call) => {
      const fd = fds.get(node);
      return fd === undefined ? others.inside(node, call) : thread.inside(fd, node, call);
    },
    namespaceFd: (node) => fds.get(node) ?? others.namespaceFd(node),
    namespacePath: (node) => (pids.has(node) ? pathOf(node) : others.namespacePath(node)),
    command: (node, words) => {
      const pid = pids.get(node);
      return pid === undefined ? words : ['nsenter', `--target=${pid}`, '--mount', '--uts', '--ipc', '--', 'sh', '-c', inContainer, 'sh', ...words];
    },
    remove: () => {
      for (const fd of fds.values()) close(fd);
      fds.clear();
      others.remove();
    },
  };
}
