/** The programs that can send traffic and which kinds each can send. A new one is one line here and its file in testbed/traffic/. */

/** Tools by name; value: the traffic kinds they take. */
export const trafficTools: ReadonlyMap<string, readonly string[]> = new Map([
  ['builtin', ['bulk', 'short', 'web', 'chunks', 'cbr', 'onoff']],
  ['iperf3', ['bulk', 'cbr']],
  ['flent', ['flent']],
]);

/** Above so many bulk flows a process each is too slow, and the built-in generator sends them unless `tool` says otherwise. */
export const mostIperf3Flows = 16;
