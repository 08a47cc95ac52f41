/**
 * A run's TCP flows as qlog (draft-ietf-quic-qlog-main-schema-13, sequential form: JSON text sequences, RFC 7464). qlog
 * defines events for QUIC only, so the event names are ours: namespace `tcp` for what the sending socket said, with the
 * field names and units of the `quic` events where they mean the same, and `queue` for what became of a packet at a bottleneck.
 * The vantage point is the network's: there is no packet_sent or packet_received of an end host, for none is recorded.
 */

import type { PlanFlow } from '../plan/plan.js';
import { closing } from './closing.js';
import type { ExportFormat, ExportRequest } from './format.js';
import { dropReason, packetRows, recordedDirections } from './packet-rows.js';
import type { Direction, PacketRow } from './packet-rows.js';
import { openRecords } from './table-stream.js';
import type { RecordReader } from './table-stream.js';
import { inTimeOrder, spread } from './time-order.js';

/** Ours; not registered anywhere. docs/export.md describes the events. */
export const eventSchemas = ['urn:x-testbed:qlog:events:tcp-1', 'urn:x-testbed:qlog:events:queue-1'] as const;

interface LogEvent { /** ns */ readonly t: number; readonly name: string; readonly flow: number; readonly data: Readonly<Record<string, unknown>> }

const states = ['open', 'disorder', 'cwr', 'recovery', 'loss'] as const;
const ms = (ns: number | null): number | undefined => (ns === null ? undefined : ns / 1e6);

export const qlog: ExportFormat = {
  summary: "TCP flows' socket samples and packets at the bottlenecks, as qlog in its sequential form", tables: [], files: 'one', byBottleneck: true,
  async write(request) {
    const tcp = request.plan.flows.filter((flow) => flow.transport === 'tcp');
    const notes: string[] = tcp.length === 0 ? ['The run has no TCP flows: the log has a head and no events.'] : [];
    const records = await openRecords(request.runDir);
    try {
      const hasPackets = (await records.columns('packets')) !== null && request.run.counts?.['packets'] !== 0;
      if (!hasPackets) notes.push('The run has no packet records: the log has no queue events.');
      const directions = hasPackets ? await recordedDirections(request, records) : [];
      await closing(await request.output('', '.sqlog'), async (output) => {
        await output.write(record(header(request)));
        const isTcp = new Set(tcp.map(({ id }) => id));
        const sources = [flowEvents(request, records, isTcp), socketEvents(records, isTcp), ...directions.map((place) => queueEvents(records, place, isTcp))];
        for await (const events of inTimeOrder(sources)) {
          request.signal.throwIfAborted();
          let text = '';
          for (const { t, name, flow, data } of events) text += record({ time: t / 1e6, name, group_id: groupOf(flow), data });
          await output.write(text);
        }
      });
      return notes;
    } finally {
      records.close();
    }
  },
};

/** RFC 7464: record separator, JSON, line feed. */
const record = (value: unknown): string => `\x1e${JSON.stringify(value)}\n`;
const groupOf = (flow: number): string => `flow-${flow}`;

const header = ({ runId, run, plan }: ExportRequest): unknown => ({
  file_schema: 'urn:ietf:params:qlog:file:sequential',
  serialization_format: 'application/qlog+json-seq',
  title: runId,
  description: `${plan.name}, seed ${plan.seed}, ${run.machine}${run.kernel?.release ? ` ${run.kernel.release}` : ''}`,
  trace: {
    title: runId,
    common_fields: { time_format: 'relative_to_epoch', reference_time: { clock_type: 'monotonic', epoch: 'unknown' } },
    vantage_point: { name: 'testbed', type: 'network' },
    event_schemas: eventSchemas,
  },
});

async function* flowEvents(request: ExportRequest, records: RecordReader, tcp: ReadonlySet<number>): AsyncGenerator<LogEvent[]> {
  if ((await records.columns('flows')) === null) return;
  interface Row { id: number; cc: string | null; t_start: number | null; t_connected: number | null; t_end: number | null; bytes: number | null; retransmits: number | null; status: string }
  const rows = await records.query<Row>(`SELECT id, cc, t_start, t_connected, t_end, bytes, retransmits, status FROM ${records.source('flows')} WHERE transport = 'tcp' ORDER BY id`);
  const events = rows.filter(({ id }) => tcp.has(id)).flatMap((row): LogEvent[] => {
    const flow: PlanFlow = request.plan.flows[row.id]!;
    const event = (t: number | null, name: string, data: LogEvent['data']): LogEvent[] => (t === null ? [] : [{ t, name, flow: row.id, data }]);
    return [
      ...event(row.t_start, 'tcp:connection_started', { local: endpoint(flow.srcAddress, flow.srcPort), remote: endpoint(flow.dstAddress, flow.dstPort), class: flow.class, congestion_control: row.cc ?? undefined, ecn: flow.ecn }),
      ...event(row.t_connected, 'tcp:connection_established', {}),
      ...event(row.t_end, 'tcp:connection_closed', { bytes_delivered: row.bytes ?? undefined, retransmits: row.retransmits ?? undefined, status: row.status }),
    ];
  });
  yield events.sort((a, b) => a.t - b.t);
}

const endpoint = (address: string, port: number): unknown => (address.includes(':') ? { ip_v6: address, port_v6: port } : { ip_v4: address, port_v4: port });

async function* socketEvents(records: RecordReader, tcp: ReadonlySet<number>): AsyncGenerator<LogEvent[]> {
  if ((await records.columns('sockets')) === null) return;
  const names = ['t', 'flow', 'cwnd', 'ssthresh', 'srtt', 'rttvar', 'min_rtt', 'delivery_rate', 'pacing_rate', 'bytes_acked', 'retransmits', 'in_flight', 'state'];
  const stateOf = new Map<number, number>();
  for await (const piece of records.rows('sockets', names.map((name) => `CAST(${name} AS DOUBLE)`))) {
    yield (piece as readonly (readonly (number | null)[])[]).flatMap((row): LogEvent[] => {
      const [t, flow, cwnd, ssthresh, srtt, rttvar, minRtt, deliveryRate, pacingRate, acked, retransmits, inFlight, state] = row as [number, number, ...(number | null)[]];
      if (!tcp.has(flow)) return [];
      const metrics: LogEvent = {
        t, flow, name: 'tcp:recovery_metrics_updated',
        data: {
          smoothed_rtt: ms(srtt!), rtt_variance: ms(rttvar!), min_rtt: ms(minRtt!), packets_in_flight: inFlight ?? undefined, pacing_rate: pacingRate ?? undefined,
          congestion_window_packets: cwnd ?? undefined, ssthresh_packets: ssthresh ?? undefined, delivery_rate: deliveryRate ?? undefined, bytes_acked: acked ?? undefined, retransmits: retransmits ?? undefined,
        },
      };
      const before = stateOf.get(flow);
      if (state === null || state === undefined || state === before) return [metrics];
      stateOf.set(flow, state);
      return [{ t, flow, name: 'tcp:congestion_state_updated', data: { ...(before === undefined ? {} : { old: states[before] }), new: states[state] } }, metrics];
    });
  }
}

function queueEvents(records: RecordReader, { direction }: Direction, tcp: ReadonlySet<number>): AsyncGenerator<LogEvent[]> {
  const bottleneck = direction.name;
  return spread<PacketRow, LogEvent>(packetRows(records, bottleneck, 'flow >= 0'), (row) => row.tEnqueue, (row, add) => {
    const flow = row.flow!;
    if (!tcp.has(flow)) return;
    const packet = { bottleneck, number: row.seq, direction: row.forward ? 'data' : 'ack', raw: { length: row.size } };
    add({ t: row.tEnqueue, flow, name: 'queue:packet_enqueued', data: { ...packet, ecn: ['Not-ECT', 'ECT(1)', 'ECT(0)', 'CE'][row.ecn] } });
    if (row.tDequeue !== null) add({ t: row.tDequeue, flow, name: 'queue:packet_dequeued', data: { ...packet, sojourn: (row.tDequeue - row.tEnqueue) / 1e6, ...(row.marked ? { marked: true } : {}) } });
    else if (row.dropped) add({ t: row.tEnqueue, flow, name: 'queue:packet_dropped', data: { ...packet, trigger: dropReason(row, direction) } });
  });
}
