/*
 * Ends a guest at once: every file to the host, then reboot(2) with power off. Distributions' halt and poweroff
 * talk to an init system or write login records first, and small images have none.
 */
#include <sys/reboot.h>
#include <unistd.h>

int main(void)
{
	sync();
	return reboot(RB_POWER_OFF) ? 1 : 0;
}
