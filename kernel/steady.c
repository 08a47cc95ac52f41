/*
 * Preloaded into programs inside a guest in virtual time that are written in Go (irtt). Go's runtime seeds the generator of
 * each of its threads, which decides the order in which goroutines that are ready run, with the processor's cycle
 * counter (runtime.cputicks in mcommoninit). That counter is the host's, the only thing of the host that a program in the
 * guest still sees: without this, irtt's packets move by up to some 0.1 ms from run to run.
 *
 * runtime.cputicks (asm_amd64.s) is RDTSCP or RDTSC, then SHLQ $32, DX; ADDQ DX, AX. The latter two become AX = 0. Besides
 * the seed, Go takes the counter for its profilers only. Programs that are not Go's, and Go's where the sequence is not found, are
 * left as they are; so are statically linked ones, which no library can be preloaded into.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const unsigned char rdtscp[] = { 0x0f, 0x01, 0xf9 };
static const unsigned char rdtsc[] = { 0x0f, 0x31 };
static const unsigned char combine[] = { 0x48, 0xc1, 0xe2, 0x20, 0x48, 0x01, 0xd0 }; /* shl $32, %rdx; add %rdx, %rax */
static const unsigned char zero[] = { 0x31, 0xc0, 0x0f, 0x1f, 0x44, 0x00, 0x00 };    /* xor %eax, %eax; nop */

/* Go's linker leaves a note of its own: type 4 (the build's id), owner "Go". */
static int written_in_go(const struct dl_phdr_info *program)
{
	for (int i = 0; i < program->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &program->dlpi_phdr[i];
		if (part->p_type != PT_NOTE)
			continue;
		const char *at = (const char *)(program->dlpi_addr + part->p_vaddr), *end = at + part->p_memsz;
		while (at + sizeof(ElfW(Nhdr)) <= end) {
			const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)at;
			const char *owner = at + sizeof *note;
			if (note->n_type == 4 && note->n_namesz == 4 && memcmp(owner, "Go\0", 4) == 0)
				return 1;
			at = owner + ((note->n_namesz + 3) & ~3u) + ((note->n_descsz + 3) & ~3u);
		}
	}
	return 0;
}

static int follows(const unsigned char *at, const unsigned char *start, const unsigned char *code, size_t length)
{
	return at - start >= (ptrdiff_t)length && memcmp(at - length, code, length) == 0;
}

static int steady(struct dl_phdr_info *program, size_t size, void *unused)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	(void)size, (void)unused;
	if (!written_in_go(program))
		return 1;
	for (int i = 0; i < program->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &program->dlpi_phdr[i];
		if (part->p_type != PT_LOAD || !(part->p_flags & PF_X))
			continue;
		unsigned char *start = (unsigned char *)(program->dlpi_addr + part->p_vaddr), *end = start + part->p_filesz;
		for (unsigned char *at = start; (at = memmem(at, (size_t)(end - at), combine, sizeof combine)); at += sizeof combine) {
			if (!follows(at, start, rdtscp, sizeof rdtscp) && !follows(at, start, rdtsc, sizeof rdtsc))
				continue;
			uintptr_t from = (uintptr_t)at & ~(page - 1), to = ((uintptr_t)at + sizeof combine + page - 1) & ~(page - 1);
			if (mprotect((void *)from, to - from, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
				continue;
			memcpy(at, zero, sizeof zero);
			mprotect((void *)from, to - from, PROT_READ | PROT_EXEC);
		}
	}
	return 1; /* the first is the program itself */
}

__attribute__((constructor)) static void start_steadily(void)
{
	dl_iterate_phdr(steady, NULL);
}
