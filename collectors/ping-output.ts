/**
 * Reads what `ping -D -n` printed (iputils; ping/ping_common.c, gather_statistics). Tolerant: a line that is not a
 * good answer is skipped, a torn one too; nothing makes it throw.
 *
 *   [1700000010.051234] 72 bytes from 10.0.3.1: icmp_seq=7 ttl=62 time=51.2 ms
 *   120 packets transmitted, 118 received, 1.66667% packet loss, time 1190ms
 */

export interface PingAnswer {
  /** From 0, counted on where ping's own 16 bits wrap. */
  readonly seq: number;
  /** CLOCK_REALTIME at which the answer arrived, ns since the epoch: µs resolution. */
  readonly receivedNs: bigint;
  /** ns, ping prints three significant digits or whole µs; NaN when the packet was too small to carry a time. */
  readonly rttNs: number;
}
export interface PingOutput {
  /** In order of arrival; of duplicates the first. */
  readonly answers: readonly PingAnswer[];
  /** From the summary; null when ping did not get to print it. */
  readonly transmitted: number | null;
}

const answerLine = /^\[(\d{1,12})\.(\d{6})\] \d+ bytes from \S+ icmp_seq=(\d{1,5})(?: ttl=\d+)?(?: time=(\d{1,9}(?:\.\d{1,6})?) ms)?( \(DUP!\))?/;
const summaryLine = /^(\d{1,9}) packets transmitted, /;

export function parsePing(text: string): PingOutput {
  const answers: PingAnswer[] = [];
  const seen = new Set<number>();
  let transmitted: number | null = null;
  let last = 0;
  for (const line of text.split('\n')) {
    const answer = answerLine.exec(line);
    if (answer) {
      const [, seconds, micros, printed, time, duplicate] = answer;
      if (duplicate !== undefined || Number(printed) > 0xffff) continue;
      // ping counts from 1 in 16 bits: the nearest number to the last one that ends in these.
      const near = Number(printed) + 0x10000 * Math.round((last - Number(printed)) / 0x10000);
      if (near < 1 || seen.has(near)) continue;
      seen.add(near);
      last = near;
      answers.push({
        seq: near - 1,
        receivedNs: BigInt(seconds!) * 1_000_000_000n + BigInt(micros!) * 1000n,
        rttNs: time === undefined ? NaN : Math.round(Number(time) * 1e6),
      });
      continue;
    }
    const summary = summaryLine.exec(line);
    if (summary) transmitted = Number(summary[1]);
  }
  return { answers, transmitted };
}
