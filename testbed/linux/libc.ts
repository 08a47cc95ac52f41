/**
 * System calls that Node has no function for, by koffi from libc: sockets in another network namespace, epoll,
 * setns, netlink, packet rings. Every call is synchronous on the calling thread (a namespace belongs to a thread).
 * Failures throw SystemError with errno's name; `try…` variants return −errno instead, for calls where EAGAIN is normal.
 */

import koffi from 'koffi';
import * as os from 'node:os';

const libc = koffi.load(null);

const names = new Map<number, string>(Object.entries(os.constants.errno).map(([name, value]) => [value, name]));

export class SystemError extends Error {
  readonly code: string;
  constructor(readonly call: string, readonly errno: number, detail = '') {
    const code = names.get(errno) ?? `errno ${errno}`;
    super(`${call}${detail ? ` ${detail}` : ''}: ${code}`);
    this.name = 'SystemError';
    this.code = code;
  }
}

/** A pointer argument: Buffer or typed array (its memory), or null. */
type Memory = Uint8Array | null;
type Call<A extends unknown[]> = (...args: A) => number;

const bind = <A extends unknown[]>(declaration: string): Call<A> => libc.func(declaration) as unknown as Call<A>;

const raw = {
  setns: bind<[number, number]>('int setns(int fd, int type)'),
  unshare: bind<[number]>('int unshare(int flags)'),
  mount: bind<[string, string, string | null, number, string | null]>('int mount(const char *source, const char *target, const char *type, unsigned long flags, const char *data)'),
  umount2: bind<[string, number]>('int umount2(const char *target, int flags)'),
  open: bind<[string, number]>('int open(const char *path, int flags)'),
  close: bind<[number]>('int close(int fd)'),
  socket: bind<[number, number, number]>('int socket(int domain, int type, int protocol)'),
  bind: bind<[number, Memory, number]>('int bind(int fd, const void *address, uint32_t length)'),
  connect: bind<[number, Memory, number]>('int connect(int fd, const void *address, uint32_t length)'),
  listen: bind<[number, number]>('int listen(int fd, int backlog)'),
  accept4: bind<[number, Memory, Memory, number]>('int accept4(int fd, void *address, void *length, int flags)'),
  shutdown: bind<[number, number]>('int shutdown(int fd, int how)'),
  getsockname: bind<[number, Memory, Memory]>('int getsockname(int fd, void *address, void *length)'),
  setsockopt: bind<[number, number, number, Memory, number]>('int setsockopt(int fd, int level, int name, const void *value, uint32_t length)'),
  getsockopt: bind<[number, number, number, Memory, Memory]>('int getsockopt(int fd, int level, int name, void *value, void *length)'),
  send: bind<[number, Memory, number, number]>('int64_t send(int fd, const void *data, size_t length, int flags)'),
  recv: bind<[number, Memory, number, number]>('int64_t recv(int fd, void *data, size_t length, int flags)'),
  sendto: bind<[number, Memory, number, number, Memory, number]>('int64_t sendto(int fd, const void *data, size_t length, int flags, const void *address, uint32_t addressLength)'),
  recvfrom: bind<[number, Memory, number, number, Memory, Memory]>('int64_t recvfrom(int fd, void *data, size_t length, int flags, void *address, void *addressLength)'),
  epollCreate1: bind<[number]>('int epoll_create1(int flags)'),
  epollCtl: bind<[number, number, number, Memory]>('int epoll_ctl(int epfd, int op, int fd, void *event)'),
  epollWait: bind<[number, Memory, number, number]>('int epoll_wait(int epfd, void *events, int maxevents, int timeout)'),
  epollPwait2: bind<[number, Memory, number, Memory, Memory]>('int epoll_pwait2(int epfd, void *events, int maxevents, const void *timeout, const void *sigmask)'),
  poll: bind<[null, number, number]>('int poll(void *files, unsigned long count, int timeout)'),
  timerfdCreate: bind<[number, number]>('int timerfd_create(int clock, int flags)'),
  timerfdSettime: bind<[number, number, Memory, Memory]>('int timerfd_settime(int fd, int flags, const void *value, void *old)'),
  clockGettime: bind<[number, Memory]>('int clock_gettime(int clock, void *timespec)'),
  ioctl: bind<[number, number, Memory]>('int ioctl(int fd, unsigned long request, void *argument)'),
  prlimit: bind<[number, number, Memory, Memory]>('int prlimit(int pid, int resource, const void *limit, void *old)'),
  schedSetscheduler: bind<[number, number, Memory]>('int sched_setscheduler(int pid, int policy, const void *parameter)'),
  prctl: bind<[number, number, number, number, number]>('int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)'),
} as const;

/** The result, or −errno: for calls where some failures are part of normal work. */
function tried<A extends unknown[]>(call: Call<A>): Call<A> {
  return (...args: A) => {
    const result = call(...args);
    return result < 0 ? -koffi.errno() : result;
  };
}
function checked<A extends unknown[]>(name: string, call: Call<A>, detail?: (...args: A) => string): Call<A> {
  return (...args: A) => {
    const result = call(...args);
    if (result < 0) throw new SystemError(name, koffi.errno(), detail?.(...args));
    return result;
  };
}

export const setns = checked('setns', raw.setns);
export const unshare = checked('unshare', raw.unshare);
export const mount = checked('mount', raw.mount, (_source, target) => target);
export const umount2 = checked('umount2', raw.umount2, (target) => target);
export const open = checked('open', raw.open, (path) => path);
export const close = checked('close', raw.close);
export const socket = checked('socket', raw.socket);
export const bindSocket = checked('bind', raw.bind);
export const tryConnect = tried(raw.connect);
export const listen = checked('listen', raw.listen);
export const tryAccept4 = tried(raw.accept4);
export const tryShutdown = tried(raw.shutdown);
export const getsockname = checked('getsockname', raw.getsockname);
export const setsockoptBytes = checked('setsockopt', raw.setsockopt, (_fd, level, name) => `level ${level} option ${name}`);
export const trySetsockopt = tried(raw.setsockopt);
export const tryGetsockopt = tried(raw.getsockopt);
export const trySend = tried(raw.send);
export const tryRecv = tried(raw.recv);
export const trySendto = tried(raw.sendto);
export const tryRecvfrom = tried(raw.recvfrom);
export const epollCreate1 = checked('epoll_create1', raw.epollCreate1);
export const epollCtl = checked('epoll_ctl', raw.epollCtl);
export const tryEpollWait = tried(raw.epollWait);
export const tryEpollPwait2 = tried(raw.epollPwait2);
export const timerfdCreate = checked('timerfd_create', raw.timerfdCreate);
export const timerfdSettime = checked('timerfd_settime', raw.timerfdSettime);
export const ioctl = checked('ioctl', raw.ioctl, (_fd, request) => `0x${request.toString(16)}`);
export const tryIoctl = tried(raw.ioctl);
export const prctl = checked('prctl', raw.prctl);
export const tryPrlimit = tried(raw.prlimit);
export const trySchedSetscheduler = tried(raw.schedSetscheduler);

/** Memory that the kernel or another process may keep: an explicit ArrayBuffer never moves. */
export const stable = (bytes: number): Buffer => Buffer.from(new ArrayBuffer(bytes));

/** Where that memory is, for a structure that points to it. The memory must be `stable` and outlive the structure's use. */
export const addressOf = (memory: Uint8Array): bigint => koffi.address(memory);

/** A wait that is over at once. */
export const waitForNothing = (): void => {
  raw.poll(null, 0, 0);
};

const int32 = stable(4);
/** setsockopt with an int value. @throws SystemError */
export function setsockoptInt(fd: number, level: number, name: number, value: number): void {
  int32.writeInt32LE(value);
  setsockoptBytes(fd, level, name, int32, 4);
}

const timespec = new BigInt64Array(new ArrayBuffer(16));
const timespecBytes = new Uint8Array(timespec.buffer);
const timespecWords = new Uint32Array(timespec.buffer);
export const CLOCK_REALTIME = 0;
export const CLOCK_MONOTONIC = 1;
/** ns; exact in a double for CLOCK_MONOTONIC (below 2^53). */
export function clockNs(clock: number): number {
  raw.clockGettime(clock, timespecBytes);
  return (timespecWords[1]! * 4294967296 + timespecWords[0]!) * 1e9 + timespecWords[2]!; // no BigInt: this is read at every wake-up
}
export function clockNsBig(clock: number): bigint {
  raw.clockGettime(clock, timespecBytes);
  return timespec[0]! * 1_000_000_000n + timespec[1]!;
}

const rawMmap = libc.func('void *mmap(void *address, size_t length, int protection, int flags, int fd, int64_t offset)') as unknown as (address: null, length: number, protection: number, flags: number, fd: number, offset: number) => unknown;
/** The mapping of `fd` as an ArrayBuffer over that very memory, for packet rings; lives as long as the process. @throws SystemError */
export function mmapShared(fd: number, length: number): ArrayBuffer {
  const pointer = rawMmap(null, length, 3 /* READ|WRITE */, 1 /* MAP_SHARED */, fd, 0);
  if (koffi.address(pointer as never) === 0xffffffffffffffffn) throw new SystemError('mmap', koffi.errno(), `${length} bytes`);
  return koffi.view(pointer as never, length);
}
