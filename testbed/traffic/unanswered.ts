/**
 * When a flow without an answer to its SYN counts as failed at the end of a run, and when it had merely started too late to
 * be connected. Linux sends SYNs at 0, 1, 2, 3 and 4 s (an initial RTO of 1 s, RFC 6298, and net.ipv4.tcp_syn_linear_timeouts = 4;
 * before 6.5 at 0, 1, 3 and 7 s). Until the answer to the fifth could be there, losses and a full queue explain the silence:
 * the flow is `running`. After that it is `failed`.
 */

const fiveSynsNs = 5e9;

/** @returns whether a connection asked for `waitedNs` ago ought to have been answered */
export const oughtToBeConnected = (waitedNs: number, baseRttNs: number): boolean => waitedNs > fiveSynsNs + baseRttNs;

export const unansweredError = (waitedNs: number): string => `no answer to its SYNs for ${(waitedNs / 1e9).toFixed(1)} s, until the run ended`;
