/**
 * FQ's flows as Linux finds them (net/sched/sch_fq.c): a hash of the flow leads to a red-black tree, and a lookup forgets what it passes on its way down
 * that has been idle for 3 s (fq_gc, at every lookup since Linux 6.7). Which flows a lookup passes depends on the tree's shape. With as many trees as a forwarded
 * packet has flows (1024 and 1024, unless told otherwise) a tree holds two or three.
 *
 * Differences from Linux: of trees of more than three flows the root alone is followed; the rest of that side is taken to be passed.
 */

/** FQ_GC_MAX */
const MOST_FORGOTTEN = 8;
const GOLDEN_RATIO_64 = 0x61c8864680b583ebn, U64 = (1n << 64n) - 1n;

/** Hashes of flows: ascending, and that of the root. */
interface Tree { keys: number[]; root: number }

export class FqRoots {
  private readonly trees = new Map<number, Tree>();
  /** hash_ptr() of each hash. */
  private readonly places = new Map<number, number>();
  private readonly shift: bigint;

  /** @param count trees, a power of two */
  constructor(count: number) {
    this.shift = BigInt(64 - Math.round(Math.log2(count)));
  }

  /** fq_gc(): flows passed on the way to `key` that may be forgotten, and are. */
  forget(key: number, idle: (other: number) => boolean): readonly number[] {
    const tree = this.trees.get(this.placeOf(key));
    if (tree === undefined) return [];
    const { keys, root } = tree;
    if (root === key) return [];
    const side = keys.filter((other) => other !== key && other !== root && (other < root) === (key < root));
    // Nothing below what is looked for is passed; of three, a side is one.
    const passed = (keys.includes(key) && keys.length <= 3 ? [root] : [root, ...side]).filter(idle).slice(0, MOST_FORGOTTEN);
    for (const other of passed) this.remove(tree, other);
    return passed;
  }

  add(key: number): void {
    const place = this.placeOf(key);
    const tree = this.trees.get(place);
    if (tree === undefined || tree.keys.length === 0) {
      this.trees.set(place, { keys: [key], root: key });
      return;
    }
    tree.keys.push(key);
    tree.keys.sort((a, b) => a - b);
    if (tree.keys.length === 3) tree.root = tree.keys[1]!;
  }

  /** rb_erase(): the next larger takes a root's place. */
  private remove(tree: Tree, key: number): void {
    const at = tree.keys.indexOf(key);
    tree.keys.splice(at, 1);
    if (tree.root === key) tree.root = tree.keys[Math.min(at, tree.keys.length - 1)] ?? key;
  }

  /** hash_ptr() of (hash << 1) | 1, which stands for the socket that a forwarded packet does not have. */
  private placeOf(key: number): number {
    let place = this.places.get(key);
    if (place === undefined) this.places.set(key, place = Number(((BigInt(key) * 2n + 1n) * GOLDEN_RATIO_64 & U64) >> this.shift));
    return place;
  }
}
