/** The system calls of the packet loop, by koffi: nothing here allocates, failures are −errno. */

import koffi from 'koffi';

const libc = koffi.load(null);
type Memory = Uint8Array | null;
type Call<A extends unknown[]> = (...args: A) => number;
const tried = <A extends unknown[]>(declaration: string): Call<A> => {
  const call = libc.func(declaration) as unknown as Call<A>;
  return (...args: A) => {
    const result = call(...args);
    return result < 0 ? -koffi.errno() : result;
  };
};

export const tryPpoll = tried<[Memory, number, Memory, Memory]>('int ppoll(void *fds, unsigned long count, const void *timeout, const void *sigmask)');
export const tryRead = tried<[number, Memory, number]>('int64_t read(int fd, void *data, size_t length)');
export const tryWrite = tried<[number, Memory, number]>('int64_t write(int fd, const void *data, size_t length)');
