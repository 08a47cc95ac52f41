/**
 * skb->truesize, which memory limits (fq_codel `memory_limit`, CAKE `memlimit`) count and packets here do not have.
 * Modelled on Linux 6.12 and 7.3 as kernel/uml.config makes them: struct sk_buff takes 256 bytes with its slab alignment, skb_shared_info 320.
 *
 * - TCP, unsegmented: the small head cache (576, SKB_SMALL_HEAD_CACHE_SIZE: MAX_TCP_HEADER, here 192, and skb_shared_info, kept
 *   off a power of two; more in a kernel whose MAX_TCP_HEADER allows for tunnels or radio) and the payload in page fragments.
 *   66 bytes (Ethernet, IPv4, TCP with time stamps) lie in the head.
 * - Datagrams (UDP, ICMP): all in one head, as __ip_append_data() and __alloc_skb() make it: room for a link header (16) and
 *   15 bytes more, whole cache lines of 64, then skb_shared_info; the small head cache if that fits, else kmalloc()'s next power of two.
 */

import { ETHERNET_HEADER, type QueuedPacket } from './aqm.js';

const SK_BUFF = 256, SHARED_INFO = 320, SMALL_HEAD = 576, ROOM = 16 + 15;

export const truesize = (packet: Pick<QueuedPacket, 'size' | 'datagram'>): number => packet.datagram ? SK_BUFF + datagramHead(packet.size - ETHERNET_HEADER) : SK_BUFF + SMALL_HEAD + packet.size - 66;

function datagramHead(ipBytes: number): number {
  const bytes = Math.ceil((ipBytes + ROOM) / 64) * 64 + SHARED_INFO;
  if (bytes <= SMALL_HEAD) return SMALL_HEAD;
  let bucket = 1024;
  while (bucket < bytes) bucket *= 2;
  return bucket;
}
