/** How the built-in generator's receivers read: the kernel engine sets it, the simulator's receivers follow it. */

/**
 * They are woken when so much waits (SO_RCVLOWAT), bytes. A wake-up is three system calls, whatever it takes in; from 256 KiB on
 * the kernel's own work is what counts.
 */
export const receiveLowWater = 256 * 1024;
/**
 * SO_RCVLOWAT set for a moment before the real one, bytes: the kernel grows the receive buffer to hold it (tcp_set_rcvlowat) and
 * leaves it so without stopping its autotuning. Else data waiting for the low-water mark would use up the window that the
 * sender is offered.
 */
export const receiveRoom = 2 << 20;
