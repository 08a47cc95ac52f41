/** The calling thread's way into other network namespaces and back (setns(2)): sockets, links and children made meanwhile belong there. */

import { close, open, setns } from '../linux/libc.js';

const CLONE_NEWNET = 0x40000000;
const O_RDONLY_CLOEXEC = 0o2000000;

/** The network namespace the calling thread is in at the moment. */
export const here = '/proc/thread-self/ns/net';

/** A descriptor of a namespace, not passed on to children. @throws SystemError */
export const openNamespace = (path: string): number => open(path, O_RDONLY_CLOEXEC);

export interface ThreadNamespace {
  /** Runs `call` with the thread in the namespace of `fd`. Synchronous, not nested. @param what for whom, for the message of a fault of ours */
  inside<T>(fd: number, what: string, call: () => T): T;
  /** Runs `call`, which changes the thread's namespace itself (unshare(2)), and brings the thread back. */
  away<T>(what: string, call: () => T): T;
  /** Once nothing more is entered; a second time is nothing. */
  close(): void;
}

/** Home is where the thread is now. */
export function threadNamespace(): ThreadNamespace {
  let home: number | null = openNamespace(here);
  let where: string | null = null;
  const away = <T>(what: string, call: () => T): T => {
    if (where !== null) throw new Error(`in the namespace of ${what} from inside that of ${where}`);
    if (home === null) throw new Error(`in the namespace of ${what} after the last`);
    where = what;
    try {
      return call();
    } finally {
      setns(home, CLONE_NEWNET);
      where = null;
    }
  };
  return {
    away,
    inside: (fd, what, call) => away(what, () => {
      setns(fd, CLONE_NEWNET);
      return call();
    }),
    close: () => {
      if (home !== null) close(home);
      home = null;
    },
  };
}
