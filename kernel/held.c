/*
 * Preloaded into iperf3's clients in a guest in real time: stops each before its main() until it is sent SIGCONT. So a
 * client is made before the run begins and starts by one signal at its time. To make a process takes a guest 8 to 17 ms,
 * in which the agent, who waits for it, runs no timer: four flows that start at one instant would make it 50 ms late.
 */
#include <signal.h>
#include <stdlib.h>

__attribute__((constructor)) static void hold(void)
{
	unsetenv("LD_PRELOAD"); /* for itself alone */
	raise(SIGSTOP);
}
