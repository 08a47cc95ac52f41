/*
 * Preloaded into iperf3 inside a guest in virtual time. iperf3 before 3.16 waits for its peer's control message at the
 * start and the end of a test in a loop around select() that returns at once, as its streams are writable and it does not
 * write. In virtual time, where computing takes no time, such a loop runs a million times a second of waiting.
 * (Its timers do not run then either, so that one that is due makes the time to wait zero.)
 *
 * Here select() that keeps returning without having waited, while nothing is read or written, waits a moment first:
 * 0.1 ms, then twice as long each time up to 1 ms. That is how late iperf3 may notice the message; data are never
 * delayed, since reading or writing anything ends it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static unsigned idle; /* calls of select() that did not wait since a byte was read or written */

/* Only bytes that went through are progress: a read of an ended stream returns 0 at once, for ever. */
static ssize_t moved(ssize_t bytes)
{
	if (bytes > 0)
		idle = 0;
	return bytes;
}

#define NEXT(type, name) \
	static __typeof__(type) next; \
	if (!next) \
		next = (__typeof__(type))dlsym(RTLD_NEXT, name)

int select(int count, fd_set *reading, fd_set *writing, fd_set *special, struct timeval *timeout)
{
	NEXT(int (*)(int, fd_set *, fd_set *, fd_set *, struct timeval *), "select");
	int polling = timeout && timeout->tv_sec == 0 && timeout->tv_usec == 0;
	int ready = next(count, reading, writing, special, timeout);
	if (ready < 0 || (ready == 0 && !polling)) {
		idle = 0;
	} else if (++idle > 4) {
		unsigned doubled = idle - 5;
		struct timespec pause = { 0, doubled < 4 ? 100000L << doubled : 1000000L };
		nanosleep(&pause, NULL);
	}
	return ready;
}

ssize_t read(int fd, void *data, size_t length)
{
	NEXT(ssize_t (*)(int, void *, size_t), "read");
	return moved(next(fd, data, length));
}

ssize_t write(int fd, const void *data, size_t length)
{
	NEXT(ssize_t (*)(int, const void *, size_t), "write");
	return moved(next(fd, data, length));
}

ssize_t send(int fd, const void *data, size_t length, int flags)
{
	NEXT(ssize_t (*)(int, const void *, size_t, int), "send");
	return moved(next(fd, data, length, flags));
}

ssize_t recv(int fd, void *data, size_t length, int flags)
{
	NEXT(ssize_t (*)(int, void *, size_t, int), "recv");
	return moved(next(fd, data, length, flags));
}

int accept(int fd, struct sockaddr *address, socklen_t *length)
{
	NEXT(int (*)(int, struct sockaddr *, socklen_t *), "accept");
	idle = 0;
	return next(fd, address, length);
}
