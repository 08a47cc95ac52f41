/** The address of memory that JavaScript owns, for kernel structures that hold pointers (msghdr, sock_fprog). */

import koffi from 'koffi';

const libc = koffi.load(null);
// memmove returns its first argument, and moves nothing when asked to move 0 bytes.
const memmove = libc.func('uint64_t memmove(void *to, const void *from, size_t bytes)') as unknown as (to: Uint8Array, from: Uint8Array, bytes: number) => number | bigint;

/** Only of memory that never moves (`stable` of libc.ts), and only valid while that is referenced. */
export const addressOf = (memory: Uint8Array): bigint => BigInt(memmove(memory, memory, 0));
