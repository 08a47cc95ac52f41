/*
 * Preloaded into the agent's Node inside a UML guest. There a system call stops the guest's process once and a page
 * fault three times, and each stop costs 10–40 µs; of the 30 000 that Node's start and a short run used to take,
 * most bought nothing:
 *
 * 1. V8 reads the clock at every function it compiles. In virtual time the clock moves only while something waits
 *    (and by a quarter of a microsecond at each reading), so here a reading is repeated until this thread has
 *    waited, or until it has been repeated 256 times: whoever polls the clock still sees it move. Only where
 *    TESTBED_CLOCK says `still`.
 *
 * 2. Memory that is about to be used is brought in a piece at a time, not a page at a time: the heap of malloc(3),
 *    which is also kept rather than given back in pieces, the pages V8 makes writable, Node's code and data.
 *
 * The agent's own programs do not inherit it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <malloc.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ /* Linux 5.14; before it the advice is refused, and pages come one at a time */
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

#define REPEATS 256
#define HEAP (8ul << 20) /* what a run of a few flows takes */
/* V8's pages are 256 KiB. Larger areas are reserves of which little is used, smaller ones not worth a call. */
#define SMALLEST (64ul << 10)
#define LARGEST (1ul << 20)

static int still;

struct reading {
	struct timespec time;
	unsigned left;
};
static __thread struct reading readings[2] __attribute__((tls_model("initial-exec"))); /* CLOCK_REALTIME, CLOCK_MONOTONIC */

int clock_gettime(clockid_t clock, struct timespec *time)
{
	if (!still || (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC))
		return (int)syscall(SYS_clock_gettime, clock, time);
	struct reading *reading = &readings[clock];
	if (reading->left == 0) {
		if (syscall(SYS_clock_gettime, clock, &reading->time) < 0)
			return -1;
		reading->left = REPEATS;
	}
	reading->left--;
	*time = reading->time;
	return 0;
}

static void waited(void)
{
	readings[0].left = readings[1].left = 0;
}

#define NEXT(name) \
	static __typeof__(&name) next; \
	if (!next) \
		next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout)
{
	NEXT(epoll_wait);
	int count = next(epoll, events, most, timeout);
	waited();
	return count;
}

int epoll_pwait(int epoll, struct epoll_event *events, int most, int timeout, const sigset_t *mask)
{
	NEXT(epoll_pwait);
	int count = next(epoll, events, most, timeout, mask);
	waited();
	return count;
}

int epoll_pwait2(int epoll, struct epoll_event *events, int most, const struct timespec *timeout, const sigset_t *mask)
{
	int count = (int)syscall(SYS_epoll_pwait2, epoll, events, most, timeout, mask, 8); /* glibc has it from 2.35 */
	waited();
	return count;
}

int poll(struct pollfd *files, nfds_t count, int timeout)
{
	NEXT(poll);
	int ready = next(files, count, timeout);
	waited();
	return ready;
}

int ppoll(struct pollfd *files, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
	NEXT(ppoll);
	int ready = next(files, count, timeout, mask);
	waited();
	return ready;
}

int nanosleep(const struct timespec *time, struct timespec *left)
{
	NEXT(nanosleep);
	int result = next(time, left);
	waited();
	return result;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
	NEXT(clock_nanosleep);
	int result = next(clock, flags, time, left);
	waited();
	return result;
}

static void bring(void *start, size_t length, int advice)
{
	uintptr_t from = (uintptr_t)start & ~4095ul, to = ((uintptr_t)start + length + 4095) & ~4095ul;
	syscall(SYS_madvise, from, to - from, advice); /* refused: as without it */
}

int mprotect(void *start, size_t length, int protection)
{
	int result = (int)syscall(SYS_mprotect, start, length, protection);
	if (result == 0 && (protection & ~PROT_EXEC) == (PROT_READ | PROT_WRITE) && length >= SMALLEST && length <= LARGEST)
		bring(start, length, MADV_POPULATE_WRITE);
	return result;
}

void *mmap64(void *start, size_t length, int protection, int flags, int file, off_t offset)
{
	if (file == -1 && protection == (PROT_READ | PROT_WRITE) && (flags & MAP_PRIVATE) && !(flags & MAP_NORESERVE) && length >= SMALLEST && length <= LARGEST)
		flags |= MAP_POPULATE;
	return (void *)syscall(SYS_mmap, start, length, protection, flags, file, offset);
}

/* The first object is the program itself. */
static int bring_program(struct dl_phdr_info *object, size_t size, void *unused)
{
	(void)size;
	(void)unused;
	for (int i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[i];
		if (part->p_type != PT_LOAD)
			continue;
		void *start = (void *)(object->dlpi_addr + part->p_vaddr);
		if (part->p_flags & PF_W)
			bring(start, part->p_memsz, MADV_POPULATE_WRITE);
		else if (part->p_flags & PF_X)
			bring(start, part->p_memsz, MADV_POPULATE_READ);
	}
	return 1;
}

__attribute__((constructor)) static void begin(void)
{
	const char *clock = getenv("TESTBED_CLOCK");
	still = clock && !strcmp(clock, "still");
	unsetenv("TESTBED_CLOCK");
	unsetenv("LD_PRELOAD");

	mallopt(M_MMAP_THRESHOLD, 32 << 20); /* the most it takes: large blocks come from the heap */
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	mallopt(M_TOP_PAD, 1 << 20);
	void *heap = malloc(HEAP);
	if (heap) {
		bring(heap, HEAP, MADV_POPULATE_WRITE);
		free(heap);
	}
	dl_iterate_phdr(bring_program, NULL);
}
