/**
 * The record tables of a run: the only thing analysis, plots, exports and comparisons read. Both engines
 * write them first as append-only record files in `raw/` (record-file.ts), so that a killed run loses
 * nothing, and `ingest` turns those into Parquet. Times: ns from the start of the run, one clock.
 * Sizes: bytes at the IP layer. Column types are DuckDB's.
 */

export type ColumnType = 'BIGINT' | 'INTEGER' | 'DOUBLE' | 'BOOLEAN' | 'VARCHAR' | 'UTINYINT';
export interface Column { readonly name: string; readonly type: ColumnType; readonly meaning: string }
export interface Table { readonly name: string; readonly columns: readonly Column[]; /** Deterministic row order. */ readonly orderBy: string }

const c = (name: string, type: ColumnType, meaning: string): Column => ({ name, type, meaning });

export const flows: Table = {
  name: 'flows', orderBy: 'id',
  columns: [
    c('id', 'INTEGER', 'flow, as in the plan'),
    c('class', 'VARCHAR', "name in the scenario's traffic"),
    c('kind', 'VARCHAR', 'bulk, short, cbr, onoff'),
    c('tool', 'VARCHAR', 'builtin, iperf3, …'),
    c('transport', 'VARCHAR', 'tcp or udp'),
    c('src', 'VARCHAR', 'sending host'),
    c('dst', 'VARCHAR', 'receiving host'),
    c('cc', 'VARCHAR', 'congestion control; null for UDP'),
    c('ecn', 'BOOLEAN', 'ECN negotiated or set'),
    c('base_rtt', 'BIGINT', 'configured two-way propagation delay, ns'),
    c('t_start', 'BIGINT', 'connect() called or first datagram sent, ns'),
    c('t_connected', 'BIGINT', 'handshake complete at the sender, ns; null if never or not known'),
    c('t_end', 'BIGINT', 'last byte acknowledged and FIN answered (or sending stopped), ns; null if it was still running'),
    c('bytes', 'BIGINT', 'payload bytes delivered in order to the receiver over the whole run'),
    c('bytes_sent', 'BIGINT', 'UDP: payload bytes sent; TCP: payload bytes sent including retransmissions'),
    c('packets_sent', 'BIGINT', 'UDP datagrams or TCP data segments sent'),
    c('packets_lost', 'BIGINT', 'UDP datagrams sent of which no copy was received; null for TCP'),
    c('packets_duplicated', 'BIGINT', 'copies received of UDP datagrams that had been received before; null for TCP, and where the tool does not tell'),
    c('fct', 'BIGINT', 't_end − t_start for a flow with an end of its own (fixed size) that completed, ns; else null'),
    c('bytes_at_warmup', 'BIGINT', 'payload bytes delivered when the window opened'),
    c('bytes_at_end', 'BIGINT', 'payload bytes delivered when the window closed'),
    c('retransmits', 'BIGINT', 'TCP segments retransmitted over the whole run; null for UDP'),
    c('retransmits_at_warmup', 'BIGINT', 'the same when the window opened'),
    c('retransmits_at_end', 'BIGINT', 'the same when the window closed'),
    c('status', 'VARCHAR', 'complete, running (cut by the end of the run), failed, not-started'),
    c('error', 'VARCHAR', 'why it failed; null otherwise'),
  ],
};

/** One row a sample and bottleneck direction. AQM state columns (e.g. `count`, `prob`) follow by name, DOUBLE, null where the AQM has none. */
export const queue: Table = {
  name: 'queue', orderBy: 't, bottleneck',
  columns: [
    c('t', 'BIGINT', 'ns'),
    c('bottleneck', 'VARCHAR', "direction's name: BL1, BL1.reverse"),
    c('backlog_bytes', 'BIGINT', 'bytes waiting, as the shaper counts them'),
    c('backlog_packets', 'BIGINT', 'packets waiting'),
    c('sent_bytes', 'BIGINT', 'cumulative, as the shaper counts them'),
    c('sent_packets', 'BIGINT', 'cumulative'),
    c('drops', 'BIGINT', 'cumulative, whole qdisc'),
    c('marks', 'BIGINT', 'cumulative ECN CE marks; null where the qdisc does not count them'),
  ],
};

/** One row a packet that arrived at a bottleneck's queue. */
export const packets: Table = {
  name: 'packets', orderBy: 'bottleneck, t_enqueue, seq',
  columns: [
    c('bottleneck', 'VARCHAR', "direction's name"),
    c('seq', 'INTEGER', 'order of arrival at this bottleneck, from 0; at one instant, as they came to the queue'),
    c('flow', 'INTEGER', 'flow id; −1 − probe id for a probe; null for anything else (ARP, ping tool control, …)'),
    c('forward', 'BOOLEAN', "true for the flow's data direction, false for its ACKs or echo replies"),
    c('size', 'INTEGER', 'IP bytes'),
    c('t_enqueue', 'BIGINT', 'arrival at the queue, ns'),
    c('t_dequeue', 'BIGINT', 'handed to the link, ns; null if dropped or still waiting when the record ends'),
    c('dropped', 'BOOLEAN', 'dropped by the queue'),
    c('marked', 'BOOLEAN', 'ECN CE set by this queue'),
    c('ecn', 'UTINYINT', 'ECN codepoint on arrival: 0 not-ECT, 1 ECT(1), 2 ECT(0), 3 CE'),
    c('drop_reason', 'VARCHAR', "limit (no room), aqm (the algorithm's decision), overload (fattest flow, in a batch), filter (ACK filter); null if not dropped, and for the kernel's own queues, which do not tell"),
  ],
};

export const probes: Table = {
  name: 'probes', orderBy: 'probe, seq',
  columns: [
    c('probe', 'VARCHAR', 'probe name'),
    c('probe_id', 'INTEGER', 'as in the plan'),
    c('seq', 'INTEGER', 'from 0'),
    c('t', 'BIGINT', 'sent, ns'),
    c('rtt', 'BIGINT', 'ns; null if lost'),
    c('owd_forward', 'BIGINT', 'one-way delay src → dst, ns; null if lost or not measured by the tool'),
    c('owd_reverse', 'BIGINT', 'one-way delay dst → src, ns; null if lost or not measured by the tool'),
    c('lost', 'BOOLEAN', 'no answer by the end of the run'),
  ],
};

/** The sending socket of each TCP flow. */
export const sockets: Table = {
  name: 'sockets', orderBy: 't, flow',
  columns: [
    c('t', 'BIGINT', 'ns'),
    c('flow', 'INTEGER', 'flow id'),
    c('cwnd', 'INTEGER', 'packets'),
    c('ssthresh', 'INTEGER', 'packets; null while infinite'),
    c('srtt', 'BIGINT', 'ns'),
    c('rttvar', 'BIGINT', 'ns'),
    c('min_rtt', 'BIGINT', 'ns'),
    c('delivery_rate', 'BIGINT', 'bits/s'),
    c('pacing_rate', 'BIGINT', 'bits/s; null if not paced'),
    c('bytes_acked', 'BIGINT', 'cumulative'),
    c('retransmits', 'BIGINT', 'cumulative segments'),
    c('in_flight', 'INTEGER', 'packets sent and not yet acknowledged or known lost'),
    c('state', 'UTINYINT', 'TCP congestion-avoidance state: 0 Open, 1 Disorder, 2 CWR, 3 Recovery, 4 Loss'),
  ],
};

export const tables = { flows, queue, packets, probes, sockets } as const;
export type TableName = keyof typeof tables;
