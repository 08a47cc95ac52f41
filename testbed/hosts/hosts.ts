/**
 * How the nodes of a plan are isolated on a machine: the seam between set-up, which only needs a network namespace a node, and what
 * makes it (netns.ts; a container is another file).
 */

export interface NodeName { /** As in the plan: `S1[0]`. */ readonly node: string; /** Without tag: `S1.0`. */ readonly netns: string }

export interface Hosts {
  readonly kind: string;
  /** Makes all nodes. `inside` is called for each, with the calling thread in its namespace, when it is made; what it throws ends the making. The thread is back where it was afterwards. */
  create(nodes: readonly NodeName[], inside: (node: string) => void): void;
  /** Runs `call` with the calling thread in the node's namespace. Synchronous, not nested. */
  inside<T>(node: string, call: () => T): T;
  /** A descriptor of the node's namespace, open until `remove`. */
  namespaceFd(node: string): number;
  /** For `nsenter --net=PATH`. */
  namespacePath(node: string): string;
  /** A program's words as they are to be started with the calling thread in the node's namespace, so that it runs as that node would run it. */
  command(node: string, words: readonly [string, ...string[]]): readonly [string, ...string[]];
  /** Removes all nodes made, also after `create` threw. */
  remove(): void;
}
