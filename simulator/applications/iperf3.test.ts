import assert from 'node:assert/strict';
import type { QueuedPacket } from '../../aqm/aqm.js';
import { aqms } from '../../aqm/registry.js';
import { dumbbell, queue, type DumbbellOptions } from '../fixture.js';
import type { Packet } from '../packet.js';
import { burstRuns, chosen, withRun, type Result } from '../testing.js';
import type { Plan } from '../../testbed/plan/plan.js';
import { noFlow } from '../../testbed/records/packet-columns.js';
import { noticedNs } from './patience.js';

/** As the kernel engine sets up hosts. */
const sysctls = { 'net.ipv4.tcp_rmem': '4096\t131072\t256901120', 'net.ipv4.tcp_wmem': '4096\t16384\t256901120' };
const smaller = { 'net.ipv4.tcp_rmem': '4096\t131072\t7340032', 'net.ipv4.tcp_wmem': '4096\t16384\t7340032' };
const plan = (options: Partial<DumbbellOptions> & Pick<DumbbellOptions, 'flows' | 'rttNs' | 'durationNs'>): Plan => dumbbell({
  rateBps: 20e6, queue: queue('pfifo', { limit: 1000 }), pairs: 1, sysctls, ...options, flows: options.flows.map((flow) => ({ tool: 'iperf3', ...flow })),
});
const packets = (result: Result): Record<string, number>[] => [...result.rows('packets-BL1.rec')].sort((a, b) => a['t_enqueue']! - b['t_enqueue']!);

/** Figures are those of iperf3 3.12 on Linux 6.12 in virtual time (testbed run --machine uml:6.12), seed 1, unless a test says otherwise. */
describe('iperf3 in the simulator', () => {
  it('sets up a control connection, exchanges parameters and sends its cookie ahead of the data, each packet at its time', () => {
    withRun(plan({ rttNs: 50e6, durationNs: 260e6, flows: [{ stopNs: 10e9 }] }), (result) => {
      const seen = [
        [60, 0], [52, 50], [89, 50], [52, 100], [56, 100], [196, 100], // SYN, ACK, cookie; ACK, length and parameters
        [60, 150], [52, 200], [52, 200], [89, 200], // the data connection; the control connection's delayed ACK; ACK, cookie
        [52, 250], [52, 250], ...Array.from({ length: 10 }, () => [1500, 251.55]), // TEST_START and TEST_RUNNING acknowledged; data
      ];
      const found = packets(result).map((row) => [row['size']!, row['t_enqueue']! / 1e6] as const);
      assert.deepEqual(found.map(([size]) => size), seen.map(([size]) => size));
      found.forEach(([size, at], i) => assert.ok(Math.abs(at - seen[i]![1]!) < 0.03, `packet ${i}, ${size} bytes, at ${at} and not ${seen[i]![1]} ms`));
      assert.deepEqual(packets(result).map((row) => row['flow'] === noFlow).slice(0, 12), [true, true, true, true, true, true, false, true, false, false, true, true], 'control packets are in no flow');
    });
  });

  it('sends the bursts of a Reno flow as Linux sent them, while its receiver reads each segment and the receive buffer grows from tcp_rmem[1] (tcp_rcv_space_adjust)', () => {
    // Run lengths of what arrived within 50 µs: slow start, 5 losses and their recovery, a second one. 50.3 ms, as at whole milliseconds a microsecond decides whether a round trip is over.
    const seen = '10x1 4x1 2x8 4x1 2x10 4x6 2x36 4x2 2x6 3x22 2x1 3x2 4x16 2x1 4x1 2x14 4x30 2x1 4x22 2x1 4x22 2x1 4x8 2x1 1x123 2x1 1x43 2x2 1x2 2x40 1x2 2x19 1x3 2x14 1x1 4x1 2x5 1x89 2x1 1x136 2x1 1x41 2x2 1x29 2x5 3x2 2x14 3x1 2x8 1x1 2x14 3x1 2x7 4x1 2x14 3x1 2x5';
    withRun(plan({ rttNs: 50.3e6, queue: queue('codel'), durationNs: 2.5e9, flows: [{ stopNs: 10e9 }] }), (result) => {
      const times = packets(result).filter((row) => row['size'] === 1500).map((row) => row['t_enqueue']!);
      assert.equal(burstRuns(times).slice(0, seen.length), seen);
    });
  });

  it('sets PSH on the last segment of a buffer that was full when the application had to wait, sent alone or not (tcp_mark_push)', () => {
    // Linux acknowledges such a segment as soon as it is read; in congestion avoidance many are sent alone.
    const sent = Array.from({ length: 4 }, (): { readonly seq: number; readonly push: boolean; readonly ns: number }[] => []);
    const kind = aqms.get('codel')!;
    const kinds = new Map([['watched', { ...kind, kind: 'watched', create: (...args: Parameters<typeof kind.create>) => {
      const made = kind.create(...args);
      const enqueue = made.enqueue.bind(made);
      made.enqueue = (packet, now) => {
        const { seq, push, route } = packet as QueuedPacket & Packet;
        if (packet.size > 1000) sent[route!.recordId]!.push({ seq, push, ns: now });
        enqueue(packet, now);
      };
      return made;
    } }]]);
    withRun(plan({ rttNs: 50.3e6, queue: queue('watched'), pairs: 4, durationNs: 8e9, flows: Array.from({ length: 4 }, () => ({ cc: 'cubic' })) }), () => {
      const alone = sent.flatMap((segments) => {
        let next = 0;
        const first = segments.filter(({ seq }) => seq >= next && (next = seq + 1) > 0);
        return first.filter(({ ns }, i) => ns - (first[i - 1]?.ns ?? 0) > 50e3 && (first[i + 1]?.ns ?? Infinity) - ns > 50e3);
      });
      const pushed = alone.filter(({ push }) => push);
      assert.ok(pushed.length >= 3 && pushed.length < 0.1 * alone.length, `${pushed.length} of ${alone.length} segments sent alone`);
    }, { aqms: kinds });
  });

  it('ends a flow of fixed size when the last byte is written, not received, and its server resets what still comes', () => {
    // 200 kB through 1 Gbit/s.
    for (const [rttMs, bytes, endMs] of [[2, 86880, 20.44], [10, 112944, 103.33], [41, 89776, 371.34], [100, 89776, 902.38]] as const) {
      withRun(plan({ rateBps: 1e9, rttNs: rttMs * 1e6, durationNs: 1.6e9, flows: [{ bytes: 200_000 }], sysctls: smaller }), (result) => {
        const [flow] = result.flows;
        assert.equal(flow!.status, 'complete');
        assert.equal(flow!.bytes, bytes, `at ${rttMs} ms`);
        assert.ok(Math.abs(flow!.t_end! / 1e6 - endMs) < 0.2, `ends at ${flow!.t_end! / 1e6} and not ${endMs} ms`);
      });
    }
  });

  it('ends after its whole seconds and the exchange of results, and is interrupted where it stops between', () => {
    const flows = [{ startNs: 100e6, stopNs: 1.6e9 }, { startNs: 200e6, stopNs: 1.2e9 }];
    withRun(plan({ rttNs: 50e6, pairs: 2, queue: queue('pfifo', { limit: 50 }), durationNs: 3e9, flows }), (result) => {
      const [cut, timed] = result.flows;
      assert.equal(cut!.status, 'complete');
      assert.equal(cut!.t_end, 1.6e9);
      assert.equal(timed!.status, 'complete');
      // Its second begins with TEST_START, five round trips after its start; it ends two more later, which queueing and polling lengthen.
      const late = timed!.t_end! / 1e6 - (200 + 250 + 1000 + 100);
      assert.ok(late > 0 && late < 60, `${late} ms`);
      assert.ok(cut!.bytes! > 0 && timed!.bytes! > 0);
    });
  });

  it('runs on to the end of the window otherwise, its cookie not counted', () => {
    withRun(plan({ rttNs: 50e6, durationNs: 2e9, flows: [{}] }), (result) => {
      const [flow] = result.flows;
      assert.equal(flow!.status, 'running');
      assert.equal(flow!.t_end, null);
      assert.equal(flow!.bytes! % 1448, 0);
    });
  });

  it('repeats what is lost of its control connection', () => {
    // Every packet of the set-up at a time, then the first of all kinds together: SYN, cookie, parameters, SYN and cookie of the data.
    const set = Array.from({ length: 12 }, (_, i) => [i]);
    for (const lost of [...set, [0, 3, 6, 9], [1, 2, 3, 4, 5, 6, 7]]) {
      withRun(plan({ rttNs: 20e6, queue: queue('chosen'), durationNs: 20e9, flows: [{ bytes: 100_000 }] }), (result) => {
        const [flow] = result.flows;
        assert.equal(flow!.status, 'complete', `without packets ${lost.join(', ')}`);
        assert.ok(flow!.bytes! > 14_000 && flow!.t_end! < 10e9, `${flow!.bytes} bytes, ended at ${flow!.t_end! / 1e6} ms without packets ${lost.join(', ')}`);
      }, { aqms: chosen(lost) });
    }
  });

  it('survives wires that lose, repeat and reorder packets, from its first packet to its last', () => {
    const flows = Array.from({ length: 12 }, (_, i) => ({ startNs: i * 50e6, ...(i % 3 === 0 ? { bytes: 150_000 } : { stopNs: i * 50e6 + (i % 3 === 1 ? 1e9 : 0.7e9) }) }));
    withRun(plan({ rttNs: 30e6, pairs: 12, durationNs: 60e9, flows, wire: { loss: 0.1, duplicate: 0.05, reorder: 0.05, delayNs: 5e6, jitterNs: 2e6 } }), (result) => {
      for (const flow of result.flows) assert.equal(flow.status, 'complete', `flow ${flow.id}: ${flow.error}`);
    });
  });

  it('gives up when nobody answers', () => {
    withRun(plan({ rttNs: 20e6, queue: queue('chosen'), durationNs: 150e9, flows: [{ bytes: 1000 }] }), (result) => {
      const [flow] = result.flows;
      assert.equal(flow!.status, 'failed');
      assert.match(flow!.error!, /control connection/);
    }, { aqms: chosen(Array.from({ length: 100 }, (_, i) => i)) });
  });

  it('sends datagrams at whole milliseconds of the test, as many as the rate is ahead of them (iperf_check_throttle)', () => {
    const udp = { kind: 'cbr', transport: 'udp', cc: null, rateBps: 12e6, packetBytes: 1200, startNs: 1e9, stopNs: 2e9 } as const;
    withRun(plan({ rttNs: 50e6, durationNs: 3e9, flows: [udp] }), (result) => {
      // 11.72 Mbit/s of payload, 9376 bits a datagram: five in four milliseconds. 32 bytes ask for the stream.
      const seen = [1150, 1200, 1201, 1202, 1203, 1204, 1204, 1205, 1206, 1207, 1208, 1208, 1209, 1210, 1211, 1212, 1212, 1213];
      const found = packets(result).filter((row) => row['flow'] === 0);
      assert.deepEqual(found.slice(0, seen.length).map((row) => Math.round(row['t_enqueue']! / 1e4) / 100), seen);
      assert.deepEqual(found.slice(0, 3).map((row) => row['size']), [32, 1200, 1200]);
      const [flow] = result.flows;
      assert.deepEqual([flow!.status, flow!.packets_sent, flow!.packets_lost, flow!.bytes], ['complete', 1249, 0, 1463828]);
      assert.ok(Math.abs(flow!.t_end! / 1e6 - 2301.556) < 0.1, `ends at ${flow!.t_end! / 1e6} ms`);
    });
  });

  it('waits 30 s for the answer to the datagram that asks for a stream, and then fails', () => {
    const udp = { kind: 'cbr', transport: 'udp', cc: null, rateBps: 1e6, packetBytes: 500, stopNs: 40e9 } as const;
    withRun(plan({ rttNs: 20e6, queue: queue('chosen'), durationNs: 40e9, flows: [udp] }), (result) => {
      const [flow] = result.flows;
      assert.equal(flow!.status, 'failed');
      assert.match(flow!.error!, /30 s/);
    }, { aqms: chosen([6]) }); // after SYN, ACK, cookie, ACK, length and parameters
  });

  it('is left out of the classic model, whose flows have no such habits', () => {
    withRun({ ...plan({ rttNs: 50e6, durationNs: 1e9, flows: [{}] }), tcp: { hostSysctls: {}, routerSysctls: {}, model: 'classic' } }, (result) => {
      const first = packets(result).slice(0, 3).map((row) => [row['size'], row['flow']]);
      assert.deepEqual(first, [[60, 0], [52, 0], [1500, 0]]);
    });
  });

  it('notices a message when a call of select() that saw it returns from its pause (kernel/patient.c)', () => {
    // From the data connection to the first data, ms: the server's answer comes a round trip later.
    for (const [rtt, data] of [[2, 3.507], [7, 8.51], [10, 11.512], [17, 18.517], [23, 24.52], [41, 42.532], [75, 76.554], [100, 101.57], [133, 134.592], [180, 181.622]] as const) {
      const found = noticedNs(0, rtt * 1e6 + 4000) / 1e6;
      assert.ok(Math.abs(found - data) < 0.01, `${found} and not ${data} ms`);
    }
    assert.equal(noticedNs(5e6, 5e6), 5e6, 'at once what is there already');
  });
});
