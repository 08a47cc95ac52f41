/**
 * skb->truesize, which memory limits (fq_codel `memory_limit`, CAKE `memlimit`) count and packets here do not have.
 * Modelled as an unsegmented TCP packet of Linux 6.12 on a 64-bit machine: struct sk_buff (256 bytes with its slab
 * alignment), the small head cache (704, SKB_SMALL_HEAD_CACHE_SIZE: headers and skb_shared_info) and the payload in
 * page fragments. 66 bytes of the packet (Ethernet, IPv4, TCP with time stamps) lie in the head.
 */
export const truesize = (bytes: number): number => bytes + 256 + 704 - 66;
