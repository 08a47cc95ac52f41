/** RFC 3168 marking, as INET_ECN_set_ce() of Linux's include/net/inet_ecn.h does it. */

import type { QueuedPacket } from './aqm.js';

export const NOT_ECT = 0, ECT_1 = 1, ECT_0 = 2, CE = 3;

/** Sets CE. @returns false for a packet that is not ECN-capable (it is left as it was); true also for one that came with CE. */
export function setCe(packet: QueuedPacket): boolean {
  if (packet.ecn === NOT_ECT) return false;
  if (packet.ecn !== CE) {
    packet.ecn = CE;
    packet.marked = true;
  }
  return true;
}
