/*
 * The first program of a UML guest. The boot folder it is in holds `arguments`, a word and a value a line:
 *   clock virtual|real     modules yes    module NAME      keep N PATH (see below)
 *   argument VALUE         one word of the agent's command line
 * The guest's root is the host's file system, read-only. /run, /tmp and /dev/shm are the guest's own and empty, but a
 * folder of the host below them that the agent needs (Node) is put back: the link keep.N leads to it.
 * Left in the boot folder: `status`, the agent's exit code. When the agent is through, the guest is ended at once:
 * distributions' halt and poweroff talk to an init system or write login records first, and small images have none.
 *
 * A program and not a script: in a guest a shell, its mounts and its mkdirs cost some 7000 stops of guest processes
 * (a page fault three, a system call one), this about a hundred.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* For the host: the working folder of the UML process, which is the boot folder. */
#define BOOT "/proc/self/cwd"
#define PATH "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define LONGEST 65536 /* of `arguments`, bytes */
#define MOST 256 /* words of the agent's command line */

static void end(void)
{
	sync();
	reboot(RB_POWER_OFF);
	_exit(1);
}

/* What fails here is said on the console; the agent's own failure, if it needs what failed, is what counts. */
static int check(int result, const char *what, const char *of)
{
	if (result < 0)
		fprintf(stderr, "init: %s %s: %s\n", what, of, strerror(errno));
	return result;
}

static int mount_at(const char *type, const char *folder, unsigned long flags, const char *data)
{
	return check(mount(type, folder, type, flags, data), "mount", folder);
}

/* As mkdir -p. */
static void make_folders(const char *folder)
{
	char path[4096];
	if (strlen(folder) >= sizeof path)
		return;
	strcpy(path, folder);
	for (char *at = path + 1;; at++) {
		if (*at != '/' && *at)
			continue;
		char was = *at;
		*at = 0;
		if (mkdir(path, 0755) < 0 && errno != EEXIST && errno != EROFS)
			check(-1, "mkdir", path);
		*at = was;
		if (!was)
			return;
	}
}

static int on_folder_of_its_own(const char *folder, const char *above)
{
	struct stat a, b;
	return stat(folder, &a) == 0 && stat(above, &b) == 0 && a.st_dev != b.st_dev;
}

static void mounts(void)
{
	mount_at("proc", "/proc", 0, NULL);
	mount_at("sysfs", "/sys", 0, NULL);
	if (!on_folder_of_its_own("/dev", "/"))
		mount_at("devtmpfs", "/dev", 0, NULL);
	mkdir("/dev/shm", 0755);
	mkdir("/dev/pts", 0755);
	mount_at("tmpfs", "/dev/shm", 0, "mode=1777");
	mount_at("devpts", "/dev/pts", 0, NULL);
	symlink("/proc/self/fd", "/dev/fd");
	mount_at("tmpfs", "/run", 0, "mode=755");
	static const char *const folders[] = {
		"/run/testbed", "/run/testbed/boot", "/run/testbed/raw", "/run/testbed/project", "/run/lock", "/run/home", NULL,
	};
	for (const char *const *folder = folders; *folder; folder++)
		check(mkdir(*folder, 0755), "mkdir", *folder);
	mount_at("hostfs", "/run/testbed/boot", 0, BOOT);
	mount_at("hostfs", "/run/testbed/raw", 0, BOOT "/raw");
	/* The project at a path that is the same wherever it is: the lengths of paths would show in the results. */
	mount_at("hostfs", "/run/testbed/project", MS_RDONLY, BOOT "/project");
	mount_at("tmpfs", "/tmp", 0, "mode=1777");
}

/* What is written to the host's folders reaches it by write-back: each second, not each half minute, so that a killed guest loses little. */
static void write_back_soon(void)
{
	static const char *const settings[] = { "/proc/sys/vm/dirty_writeback_centisecs", "/proc/sys/vm/dirty_expire_centisecs", NULL };
	for (const char *const *setting = settings; *setting; setting++) {
		int fd = check(open(*setting, O_WRONLY | O_CLOEXEC), "open", *setting);
		if (fd >= 0) {
			check((int)write(fd, "100", 3), "write", *setting);
			close(fd);
		}
	}
}

static int loopback_up(void)
{
	struct ifreq request = { .ifr_name = "lo" };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), result = -1;
	if (fd >= 0 && ioctl(fd, SIOCGIFFLAGS, &request) == 0) {
		request.ifr_flags |= IFF_UP;
		result = ioctl(fd, SIOCSIFFLAGS, &request);
	}
	if (fd >= 0)
		close(fd);
	return result;
}

/* @returns the exit code, as a shell counts it; 127 when it could not be started */
static int run(char *const words[], char *const environment[])
{
	pid_t child = vfork();
	if (child == 0) {
		execvpe(words[0], words, environment);
		check(-1, "start", words[0]);
		_exit(127);
	}
	int status = 0;
	pid_t ended;
	/* Orphans of the agent are ours, too. */
	while ((ended = waitpid(-1, &status, 0)) != child)
		if (ended < 0 && errno != EINTR)
			return 127;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static char text[LONGEST];
static char *agent[MOST + 1];

int main(void)
{
	mounts();
	write_back_soon();

	int fd = check(open("/run/testbed/boot/arguments", O_RDONLY | O_CLOEXEC), "open", "arguments"), words = 0, still = 0;
	size_t length = 0;
	for (ssize_t got; fd >= 0 && (got = read(fd, text + length, sizeof text - 1 - length)) > 0; length += (size_t)got)
		;
	close(fd);
	putenv(PATH);
	for (char *line = text, *next; *line; line = next) {
		next = strchrnul(line, '\n');
		if (*next)
			*next++ = 0;
		char *value = strchrnul(line, ' ');
		if (*value)
			*value++ = 0;
		if (!strcmp(line, "clock")) {
			still = !strcmp(value, "virtual");
		} else if (!strcmp(line, "modules")) {
			make_folders("/run/modules/lib/modules");
			mount_at("hostfs", "/run/modules/lib/modules", MS_RDONLY, BOOT "/modules");
			mount("/run/modules/lib/modules", "/lib/modules", NULL, MS_BIND, NULL); /* a host need not have the folder */
		} else if (!strcmp(line, "module")) {
			run((char *[]){ "modprobe", "-d", "/run/modules", value, NULL }, environ);
		} else if (!strcmp(line, "keep")) {
			char from[64], *folder = strchrnul(value, ' ');
			if (*folder)
				*folder++ = 0;
			snprintf(from, sizeof from, BOOT "/keep.%s", value);
			make_folders(folder);
			mount_at("hostfs", folder, MS_RDONLY, from);
		} else if (!strcmp(line, "argument") && words < MOST) {
			agent[words++] = value;
		}
	}

	sethostname("testbed", 7);
	check(loopback_up(), "bring up", "lo");
	setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 65536, 65536 });
	/* ping takes second 0 of the clock for "not started" and then ignores its interval; in virtual time this costs nothing. */
	if (still)
		nanosleep(&(struct timespec){ 2, 0 }, NULL);

	check(chdir("/run/home"), "go to", "/run/home");
	int null = open("/dev/null", O_RDONLY);
	if (null >= 0) {
		dup2(null, 0);
		close(null);
	}
	char *environment[] = {
		PATH, "HOME=/run/home", "TMPDIR=/tmp", "LANG=C.UTF-8", "TZ=UTC",
		"UV_THREADPOOL_SIZE=1", /* there is one processor */
		"LD_PRELOAD=/run/testbed/boot/thrifty.so", still ? "TESTBED_CLOCK=still" : NULL, NULL,
	};
	int status = words > 0 ? run(agent, environment) : 127;

	char digits[16];
	int size = snprintf(digits, sizeof digits, "%d\n", status);
	fd = check(open("/run/testbed/boot/status", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644), "open", "status");
	if (fd >= 0) {
		if (write(fd, digits, (size_t)size) != size)
			check(-1, "write", "status");
		close(fd);
	}
	end();
}
