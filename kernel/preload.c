/*
 * Preloaded into a UML kernel process (never into the guest's programs). What it changes about the host:
 *
 * 1. getrandom(2) answers from the seed in TESTBED_GETRANDOM_SEED: UML seeds the guest's random number
 *    generator from it, and a run in virtual time must not depend on the host's entropy. Unset: the host's own.
 *
 * 2. ptrace(PTRACE_{GET,SET}REGSET, NT_X86_XSTATE): kernels before 6.13 keep a guest program's extended
 *    registers in 2696 bytes (arch/x86/um/user-offsets.c, HOST_FP_SIZE: up to AVX-512 and PKRU), but on a host
 *    with AMX the register set is 11008 bytes and the host refuses a shorter write with EFAULT: the kernel dies
 *    at boot. Here such a write is completed with what lies beyond marked as in its initial state (bits 17 and 18
 *    of XSTATE_BV cleared), which is exact for programs that never asked the kernel for AMX.
 *    A write of what was read of the same process just before, which has not run in between, is left out: the kernel
 *    reads and writes them around every system call of a guest program, and rarely has another program's to put there.
 *
 * 3. clone(3): every process the kernel process makes (its guest's address spaces, its I/O threads) is killed when
 *    the kernel process dies, however it dies. Without it the I/O threads of Debian's 6.1 outlive a SIGKILL.
 *
 * 4. Before main: the kernel process dies with the process that started it (TESTBED_PARENT is its pid), stays on
 *    one core (TESTBED_CPU), and leaves no core file when it panics.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

__attribute__((constructor)) static void start_under_control(void)
{
	const char *parent = getenv("TESTBED_PARENT"), *cpu = getenv("TESTBED_CPU");
	if (parent && *parent) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != (pid_t)strtol(parent, NULL, 10))
			_exit(1); /* it died before the line above */
	}
	if (cpu && *cpu) {
		cpu_set_t set;
		CPU_ZERO(&set);
		CPU_SET(strtoul(cpu, NULL, 10), &set);
		sched_setaffinity(0, sizeof set, &set); /* a core we may not use: stay where we are */
	}
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
}

ssize_t getrandom(void *buffer, size_t length, unsigned flags)
{
	static uint64_t state;
	static int seeded = -1;
	if (seeded < 0) {
		const char *seed = getenv("TESTBED_GETRANDOM_SEED");
		seeded = seed && *seed;
		if (seeded)
			state = strtoull(seed, NULL, 10);
	}
	if (!seeded)
		return syscall(SYS_getrandom, buffer, length, flags);
	for (size_t i = 0; i < length; i++) { /* splitmix64, one byte a step */
		uint64_t z = (state += 0x9E3779B97F4A7C15u);
		z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
		z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
		((unsigned char *)buffer)[i] = (unsigned char)((z ^ (z >> 31)) >> 24);
	}
	return (ssize_t)length;
}

#define XSTATE_MAX 16384
#define XSTATE_BV 512 /* offset of the XSAVE header's XSTATE_BV */
#define AMX_BITS ((UINT64_C(1) << 17) | (UINT64_C(1) << 18))

static size_t host_xstate_size; /* what the host says a whole register set is; 0 = not known yet */

/* What the stopped process `pid` has in its registers, as it was read; pid 0: not known. */
static struct {
	pid_t pid;
	size_t length;
	unsigned char registers[XSTATE_MAX];
} held;

static void hold(pid_t pid, const struct iovec *read)
{
	held.pid = read->iov_len <= sizeof held.registers ? pid : 0;
	if (held.pid) {
		held.length = read->iov_len;
		memcpy(held.registers, read->iov_base, read->iov_len);
	}
}

long ptrace(enum __ptrace_request request, ...)
{
	static long (*next)(enum __ptrace_request, ...);
	static unsigned char whole[XSTATE_MAX] __attribute__((aligned(64))); /* the kernel process is single-threaded where it traces */
	va_list arguments;
	va_start(arguments, request);
	pid_t pid = va_arg(arguments, pid_t);
	void *address = va_arg(arguments, void *);
	void *data = va_arg(arguments, void *);
	va_end(arguments);
	if (!next)
		next = (long (*)(enum __ptrace_request, ...))dlsym(RTLD_NEXT, "ptrace");

	switch ((int)request) {
	case PTRACE_GETREGSET:
	case PTRACE_SETREGSET:
		if ((uintptr_t)address == NT_X86_XSTATE)
			break;
		return next(request, pid, address, data);
	case PTRACE_GETREGS:
	case PTRACE_SETREGS:
	case PTRACE_GETSIGINFO:
		return next(request, pid, address, data);
	default: /* it may run on */
		if (held.pid == pid)
			held.pid = 0;
		return next(request, pid, address, data);
	}

	struct iovec *given = data;
	if (request == PTRACE_GETREGSET) {
		long result = next(request, pid, address, data);
		if (result == 0)
			hold(pid, given);
		return result;
	}
	if (held.pid == pid && held.length == given->iov_len && !memcmp(held.registers, given->iov_base, held.length))
		return 0;
	held.pid = 0;
	if (!host_xstate_size) {
		struct iovec all = { whole, sizeof whole };
		if (next(PTRACE_GETREGSET, pid, address, &all) == 0)
			host_xstate_size = all.iov_len;
	}
	if (given->iov_len >= host_xstate_size || given->iov_len < XSTATE_BV + 8)
		return next(request, pid, address, data);
	uint64_t present;
	memcpy(whole, given->iov_base, given->iov_len);
	memset(whole + given->iov_len, 0, host_xstate_size - given->iov_len);
	memcpy(&present, whole + XSTATE_BV, sizeof present);
	present &= ~AMX_BITS;
	memcpy(whole + XSTATE_BV, &present, sizeof present);
	struct iovec all = { whole, host_xstate_size };
	return next(request, pid, address, &all);
}

#define STARTS 256

struct start {
	int (*run)(void *);
	void *argument;
};

static int die_with_parent(void *opaque)
{
	struct start *start = opaque, mine = *start;
	syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	return mine.run(mine.argument);
}

int clone(int (*run)(void *), void *stack, int flags, void *argument, ...)
{
	static int (*next)(int (*)(void *), void *, int, void *, ...);
	static struct start starts[STARTS]; /* a ring: a child that shares our memory reads its entry as it starts */
	static unsigned count;
	if (!next)
		next = (int (*)(int (*)(void *), void *, int, void *, ...))dlsym(RTLD_NEXT, "clone");
	/* The kernel passes no optional arguments (CLONE_SETTLS and such); a thread of this process dies with it anyway. */
	if (flags & CLONE_THREAD)
		return next(run, stack, flags, argument);
	struct start *start = &starts[count++ % STARTS];
	start->run = run;
	start->argument = argument;
	return next(die_with_parent, stack, flags, start);
}
