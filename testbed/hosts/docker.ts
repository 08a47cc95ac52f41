/**
 * Nodes in containers (containers.ts). The network is made from outside, by the containers' namespaces, exactly as for netns; the
 * programs of a host (iperf3, ping) run in its container. What is no node of the plan (the wires) stays a namespace.
 */

import { closeSync, openSync, readlinkSync } from 'node:fs';
import { UserError } from '../errors.js';
import type { Journal } from '../journal/journal.js';
import { open, setns } from '../linux/libc.js';
import type { Hosts } from './hosts.js';
import { netnsHosts } from './netns.js';

const CLONE_NEWNET = 0x40000000;
const O_RDONLY_CLOEXEC = 0o2000000;

/** What the environment says of this machine's folders does not hold in the container. */
const inContainer = 'unset TMPDIR HOME; exec "$@"';

/** @param pids first process of each node's container, by node */
export function dockerHosts(pids: ReadonlyMap<string, number>, tag: string, journal: Journal | null): Hosts {
  const others = netnsHosts(tag, journal);
  const fds = new Map<string, number>();
  const home = open('/proc/thread-self/ns/net', O_RDONLY_CLOEXEC);
  let inNode = false;
  const pathOf = (node: string): string => `/proc/${pids.get(node)!}/ns/net`;
  const enter = <T>(fd: number, node: string, call: () => T): T => {
    if (inNode) throw new Error(`inNode(${node}) inside another inNode`);
    setns(fd, CLONE_NEWNET);
    inNode = true;
    try {
      return call();
    } finally {
      setns(home, CLONE_NEWNET);
      inNode = false;
    }
  };
  return {
    kind: 'docker',
    create: (nodes, inside) => {
      for (const { node } of nodes) {
        if (!pids.has(node)) continue;
        const fd = openSync(pathOf(node), 'r');
        fds.set(node, fd);
        if (readlinkSync(pathOf(node)) === readlinkSync('/proc/self/ns/net')) throw new UserError(`the container of ${node} has no network namespace of its own; is the engine told to use the host's?`, 1);
        enter(fd, node, () => { inside(node); });
      }
      others.create(nodes.filter(({ node }) => !pids.has(node)), inside);
    },
    inside: (node, call) => {
      const fd = fds.get(node);
      return fd === undefined ? others.inside(node, call) : enter(fd, node, call);
    },
    namespaceFd: (node) => fds.get(node) ?? others.namespaceFd(node),
    namespacePath: (node) => (pids.has(node) ? pathOf(node) : others.namespacePath(node)),
    command: (node, words) => {
      const pid = pids.get(node);
      return pid === undefined ? words : ['nsenter', `--target=${pid}`, '--mount', '--uts', '--ipc', '--', 'sh', '-c', inContainer, 'sh', ...words];
    },
    remove: () => {
      for (const fd of fds.values()) closeSync(fd);
      fds.clear();
      others.remove();
      closeSync(home);
    },
  };
}
