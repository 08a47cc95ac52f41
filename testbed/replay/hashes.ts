/**
 * Which queue each packet went to, from the hash that its record holds (captureHashField): the kernel's own choice, whatever its secret. A flow
 * may move: a TCP socket that times out takes a new txhash (net.core.txrehash, sk_rethink_txhash), and what answers once it is closed has none.
 */

import { none } from '../records/record-file.js';
import { identity, nameOf, type Sharing } from './buckets.js';
import type { EventSource } from './events.js';

/**
 * @param queueOf the queue that the discipline gives a hash
 * @param untilNs events after it are not looked at
 */
export async function readSharing(source: EventSource, queueOf: (hash: number) => number, untilNs: number): Promise<Sharing> {
  const last = new Map<number, number>();
  const members = new Map<number, Set<number>>();
  let moves = 0, strangers = 0;
  for await (const { count, t, leaving, flow, forward, hash } of source.chunks()) {
    for (let i = 0; i < count; i++) {
      if (t[i]! > untilNs) break;
      if (leaving[i] === 1) continue;
      const queue = queueOf(hash![i]!);
      let flows = members.get(queue);
      if (flows === undefined) members.set(queue, flows = new Set());
      if (flow[i] === none.i32) {
        strangers++;
        continue;
      }
      const id = identity(flow[i]!, forward[i]!);
      const before = last.get(id);
      if (before === hash![i]) continue;
      last.set(id, hash![i]!);
      if (before !== undefined) moves++;
      flows.add(id);
    }
  }
  return { from: 'hash', queues: members.size, collisions: [...members.values()].filter(({ size }) => size > 1).map((ids) => [...ids].map(nameOf)), strangers, moves };
}
