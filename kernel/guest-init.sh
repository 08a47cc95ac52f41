#!/bin/sh
# The first program of a UML guest. The boot folder it is in holds `arguments`, a word and a value a line:
#   clock virtual|real     modules yes    module NAME      keep N PATH (see below)
#   argument VALUE         one word of the agent's command line
# The guest's root is the host's file system, read-only. /run, /tmp and /dev/shm are the guest's own and empty, but a
# folder of the host below them that the agent needs (Node) is put back: the link keep.N leads to it.
# Left in the boot folder: `status`, the agent's exit code.

PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
# For the host: the working folder of the UML process, which is the boot folder.
boot=/proc/self/cwd

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mountpoint -q /dev || mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/shm /dev/pts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t devpts devpts /dev/pts
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/testbed/boot /run/testbed/raw /run/testbed/project /run/lock /run/home /run/modules/lib/modules
mount -t hostfs none /run/testbed/boot -o "$boot"
mount -t hostfs none /run/testbed/raw -o "$boot/raw"
# The project at a path that is the same wherever it is: the lengths of paths would show in the results.
mount -r -t hostfs none /run/testbed/project -o "$boot/project"
mount -t tmpfs -o mode=1777 tmpfs /tmp

clock=real
set --
while IFS= read -r line; do
	value=${line#* }
	case $line in
	'clock '*) clock=$value ;;
	'modules '*) mount -r -t hostfs none /run/modules/lib/modules -o "$boot/modules"
		[ -d /lib/modules ] && mount --bind /run/modules/lib/modules /lib/modules ;;
	'module '*) modprobe -d /run/modules "$value" ;;
	'keep '*)
		mkdir -p "${value#* }"
		mount -r -t hostfs none "${value#* }" -o "$boot/keep.${value%% *}" ;;
	'argument '*) set -- "$@" "$value" ;;
	esac
done </run/testbed/boot/arguments

echo testbed >/proc/sys/kernel/hostname
ip link set lo up
ulimit -n 65536
# ping takes second 0 of the clock for "not started" and then ignores its interval; in virtual time this costs nothing.
[ "$clock" = virtual ] && sleep 2

cd /run/home
env -i PATH="$PATH" HOME=/run/home TMPDIR=/tmp LANG=C.UTF-8 TZ=UTC "$@" </dev/null
echo $? >/run/testbed/boot/status
exec /run/testbed/boot/poweroff
