import assert from 'node:assert/strict';
import type { QueuedPacket } from '../aqm/aqm.js';
import { aqms } from '../aqm/registry.js';
import type { Plan } from '../testbed/plan/plan.js';
import { Actor, EventQueue } from './events.js';
import { dumbbell, queue } from './fixture.js';
import type { Packet } from './packet.js';
import { burstRuns, chosen, withRun } from './testing.js';

/** What runs of Linux 6.12 in virtual time were seen to do, each with its place in the kernel's source. */
describe('The simulator does as Linux 6.12 was seen to do', () => {
  /** fq at the sender's own interface of 1 Gbit/s; any other kind: no queue there. */
  const withHostQueue = (plan: Plan, kind: string): Plan => ({
    ...plan, links: plan.links.map((link) => (link.name === 'S[0]' && kind === 'fq' ? { ...link, forward: { ...link.forward, rateBps: 1e9, shaper: 'htb' as const, queue: queue(kind) } } : link)),
  });
  const unloaded = { rateBps: 10e9, pairs: 1, rttNs: 100e6 };

  it('updates PIE every 30 ms, not 15: two jiffies of 10 ms, and the timer wheel adds one (sch_pie.c, timer.c)', () => {
    const plan = dumbbell({ rateBps: 20e6, queue: queue('pie'), pairs: 4, rttNs: 50e6, durationNs: 4e9, queueIntervalNs: 1e6, flows: Array.from({ length: 4 }, () => ({})) });
    withRun(plan, (result) => {
      let last = 0;
      const at: number[] = [];
      for (const row of result.rows('queue-BL1.rec')) {
        if (row['prob'] !== last) at.push(row['t']! / 1e6);
        last = row['prob']!;
      }
      const gaps = at.slice(1).map((t, i) => Math.round(t - at[i]!));
      assert.ok(gaps.length > 50);
      for (const gap of gaps) assert.equal(gap % 30, 0, `${gap} ms between two updates`);
      assert.ok(gaps.includes(30));
    });
  });

  it('does not ask an empty discipline under HTB (htb_deactivate)', () => {
    let asked = 0;
    const pfifo = aqms.get('pfifo')!;
    const watched = new Map([['watched', { ...pfifo, kind: 'watched', create: (...args: Parameters<typeof pfifo.create>) => {
      const made = pfifo.create(...args);
      const dequeue = made.dequeue.bind(made);
      made.dequeue = (now) => {
        if (made.backlogPackets === 0 && now < 1.9e9) asked++; // not at the end of the run, when records are completed
        return dequeue(now);
      };
      return made;
    } }]]);
    withRun(dumbbell({ rateBps: 20e6, queue: queue('watched'), pairs: 1, rttNs: 50e6, durationNs: 2e9, flows: [{ bytes: 30 * 1448 }] }), (result) => {
      assert.equal(result.flows[0]!.status, 'complete');
      assert.equal(asked, 0);
    }, { aqms: watched });
  });

  it('sends the third segment of an odd window at once: it waits only for an acknowledgement due within a millisecond (tcp_tso_should_defer)', () => {
    // A lost segment halves the window to an odd number; afterwards bursts of three appear, not of two and one later.
    const drops = Array.from({ length: 400 }, (_, i) => i).filter((i) => i > 10 && i % 40 === 0);
    withRun(dumbbell({ rateBps: 5e6, queue: queue('chosen'), pairs: 1, rttNs: 100e6, durationNs: 20e9, socketIntervalNs: 50e6, flows: [{}] }), (result) => {
      const open = result.rows('sockets.rec').filter((row) => row['state'] === 0 && row['t']! > 3e9);
      const short = open.filter((row) => row['in_flight']! < row['cwnd']!);
      assert.ok(open.length > 50);
      assert.ok(short.length < 0.05 * open.length, `${short.length} of ${open.length} samples with room in the window`);
    }, { aqms: chosen(drops) });
  });

  it('gives FQ-CoDel a quantum of the device\'s MTU and header, whatever overhead the shaper counts: a flow that saves 14 bytes a turn sends two now and then (psched_mtu)', () => {
    // Counted without a header, a packet is 1500 bytes and a quantum 1514. From the second flow's handshake on, Linux 6.12 sent its (1) and the first flow's (0) in this order.
    const seen = '1101011010101010100000000000000000000000000000000001110101010101010101010101010101010101000000000000';
    const plan = dumbbell({ rateBps: 20e6, overheadBytes: 0, queue: queue('fq_codel'), pairs: 2, rttNs: 50e6, durationNs: 0.4e9, flows: [{}, { startNs: 105e6 }] });
    withRun(plan, (result) => {
      const sent = result.rows('packets-BL1.rec').filter((row) => row['dropped'] === 0).sort((a, b) => a['t_dequeue']! - b['t_dequeue']!);
      const connected = sent.findIndex((row) => row['flow'] === 1 && row['size'] === 52);
      assert.equal(sent.slice(connected + 1, connected + 1 + seen.length).map((row) => row['flow']).join(''), seen);
    });
  });

  it('draws another hash at a retransmission timeout, so that FQ-CoDel and CAKE see a new flow (sk_rethink_txhash)', () => {
    const hashes: number[] = [];
    const kinds = chosen([2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    const kind = kinds.get('chosen')!;
    const watched = new Map([['chosen', { ...kind, create: (...args: Parameters<typeof kind.create>) => {
      const made = kind.create(...args);
      const enqueue = made.enqueue.bind(made);
      made.enqueue = (packet, now) => {
        hashes.push(packet.flowHash);
        enqueue(packet, now);
      };
      return made;
    } }]]);
    withRun(dumbbell({ ...unloaded, queue: queue('chosen'), durationNs: 5e9, flows: [{ bytes: 40 * 1448 }] }), (result) => {
      assert.equal(result.flows[0]!.status, 'complete');
      assert.ok(new Set(hashes.slice(0, 12)).size === 1, 'one hash before the timeout');
      assert.notEqual(hashes.at(-1), hashes[0], 'another after it');
    }, { aqms: watched });
  });

  it('fires timers of one jiffy the last set first, and those of a coarser level of the timer wheel before them (enqueue_timer, expire_timers)', () => {
    // Both SYNs are lost; a timer of 1 s is in a slot of 8 jiffies.
    withRun(dumbbell({ ...unloaded, pairs: 2, queue: queue('chosen'), durationNs: 3e9, flows: [{ bytes: 1448, startNs: 1e6 }, { bytes: 1448, startNs: 3e6 }] }), (result) => {
      const rows = result.rows('packets-BL1.rec');
      const again = rows.filter((row) => row['t_enqueue'] === 1.04e9);
      assert.deepEqual(again.map((row) => row['flow']), [1, 0]);
    }, { aqms: chosen([0, 1]) });
    const events = new EventQueue();
    const fired: string[] = [];
    const timer = (name: string, level: number): void => {
      const actor = new (class extends Actor { override fire(): void { fired.push(name); } })();
      events.add(actor);
      events.scheduleOrdered(actor.actorId, 10e6, events.takeTimerOrder(level));
    };
    timer('coarse, first', 1); timer('fine, first', 0); timer('coarse, second', 1); timer('fine, second', 0);
    events.run(10e6);
    assert.deepEqual(fired, ['coarse, second', 'coarse, first', 'fine, second', 'fine, first']);
  });

  it('keeps the initial window of 10 when SYNs were only answered late (tcp_try_undo_spurious_syn)', () => {
    withRun(dumbbell({ ...unloaded, rttNs: 2.5e9, queue: queue('pfifo', { limit: 1000 }), durationNs: 12e9, flows: [{ bytes: 9 * 1448 }] }), (result) => {
      const [flow] = result.flows;
      assert.equal(flow!.retransmits, 2, 'two SYNs repeated, after 1 and 2 s');
      assert.equal(flow!.t_connected, 2.5e9);
      // One round trip for all nine segments and the FIN.
      assert.ok(flow!.t_end! < 5.2e9, `ends at ${flow!.t_end! / 1e9} s`);
    });
  });

  it('acknowledges each segment while the window offered grows, and again after each read that makes room, else every second (tcp_grow_window, tcp_rcv_space_adjust)', () => {
    // A loss ends slow start early, so that each acknowledgement clocks out what it acknowledges: single segments or pairs. Linux 6.12 was
    // seen to acknowledge segments 1 to 162 alone, in pairs to 182, where 256 KiB were read, alone to 218, in pairs to 364, alone to 373.
    const plan = dumbbell({ rateBps: 5e6, queue: queue('chosen'), pairs: 1, rttNs: 10e6, durationNs: 3e9, flows: [{ bytes: 500 * 1448 }], sysctls: { 'net.ipv4.tcp_rmem': '4096\t131072\t256901120' } });
    withRun(plan, (result) => {
      const times = result.rows('packets-BL1.rec').filter((row) => row['size']! === 1500 && row['dropped'] === 0).map((row) => row['t_enqueue']!);
      const alone = times.map((t, i) => t - times[i - 1]! > 1000 && !(times[i + 1]! - t <= 1000));
      const share = (from: number, to: number): number => alone.slice(from, to).filter(Boolean).length / (to - from);
      // What is acknowledged is followed some twenty segments later by what it clocks out.
      assert.ok(share(60, 180) > 0.8, `of segments 60 to 180, ${share(60, 180)} left alone`);
      assert.ok(share(184, 204) < 0.2, `of segments 184 to 204, ${share(184, 204)} left alone`);
      assert.ok(share(206, 240) > 0.8, `of segments 206 to 240, ${share(206, 240)} left alone`);
      assert.ok(share(244, 390) < 0.2, `of segments 244 to 390, ${share(244, 390)} left alone`);
    }, { aqms: chosen([22]) });
  });

  it('sends the bursts of one Reno flow through a drop-tail queue as Linux 6.12 sent them, through slow start and recovery (tcp_write_xmit, tcp_tso_should_defer, tcp_grow_skb)', () => {
    // Sizes of the bursts that arrived within 50 µs in 6 s at 20 Mbit/s, 50 ms, 1000 packets, run lengths; a buffer that the application filled ends where a pair
    // or a six stands among fours. 1083 packets of slow start are lost and repeated in between, and one when the window has grown again.
    const seen = '10x1 4x1 2x8 4x1 2x18 4x1 2x38 4x1 2x9 3x23 4x4 5x1 4x11 2x2 4x1 2x10 4x105 6x1 4x86 6x1 4x114 2x1 4x22 2x1 4x22 2x1 4x22';
    const plan = dumbbell({ rateBps: 20e6, queue: queue('pfifo', { limit: 1000 }), pairs: 1, rttNs: 50e6, durationNs: 6e9, flows: [{}], sysctls: { 'net.ipv4.tcp_rmem': '4096\t131072\t256901120', 'net.ipv4.tcp_wmem': '4096\t16384\t256901120' } });
    withRun(plan, (result) => {
      const times = result.rows('packets-BL1.rec').filter((row) => row['size']! === 1500).map((row) => row['t_enqueue']!).sort((a, b) => a - b);
      assert.equal(burstRuns(times).slice(0, seen.length), seen);
      assert.equal(result.rows('packets-BL1.rec').filter((row) => row['dropped'] === 1).length, 1084);
    });
  });

  it('acknowledges every second segment where each makes a SACK block of its own, compressed or not (tcp_sack_new_ofo_skb)', () => {
    // Every second segment of 400 to 498 is lost. Linux 6.12, 100 Mbit/s, was seen to send every 0.242 ms then, one segment for two that arrived.
    const sent: { readonly seq: number; readonly ms: number }[] = [];
    const kind = chosen([]).get('chosen')!;
    const kinds = new Map([['chosen', { ...kind, create: (...args: Parameters<typeof kind.create>) => {
      const made = kind.create(...args);
      const enqueue = made.enqueue.bind(made);
      made.enqueue = (packet, now) => {
        const { seq } = packet as QueuedPacket & Packet;
        const again = sent.some((other) => other.seq === seq);
        if (packet.size > 1000) sent.push({ seq, ms: now / 1e6 });
        if (seq >= 400 && seq < 500 && seq % 2 === 0 && !again) args[1].drop(packet, 'aqm', now); else enqueue(packet, now);
      };
      return made;
    } }]]);
    withRun(dumbbell({ rateBps: 100e6, queue: queue('chosen'), pairs: 1, rttNs: 200e6, durationNs: 3e9, flows: [{}] }), () => {
      const first = sent.findLastIndex(({ seq }) => seq === 400);
      assert.ok(sent.filter(({ seq }) => seq === 400).length === 2, 'repeated once');
      const next = sent.slice(first).filter(({ ms }) => ms < sent[first]!.ms + 5);
      assert.ok(next.length > 15, `${next.length} segments in 5 ms: ${next.map(({ seq, ms }) => `${seq} ${ms.toFixed(2)}`).join(', ')}`);
    }, { aqms: kinds });
  });

  it('frees the buffers of what is SACKed, so that the send buffer has room for the whole window in a long recovery (tcp_shift_skb_data)', () => {
    // Segment 150 is lost twice: its recovery takes two round trips, in which everything else arrives.
    const kind = chosen([]).get('chosen')!;
    const kinds = new Map([['chosen', { ...kind, create: (...args: Parameters<typeof kind.create>) => {
      const made = kind.create(...args);
      const enqueue = made.enqueue.bind(made);
      let losses = 0;
      made.enqueue = (packet, now) => {
        if ((packet as QueuedPacket & Packet).seq === 150 && losses < 2) { losses++; args[1].drop(packet, 'aqm', now); } else enqueue(packet, now);
      };
      return made;
    } }]]);
    withRun(dumbbell({ rateBps: 5e6, queue: queue('chosen'), pairs: 1, rttNs: 100e6, durationNs: 5e9, socketIntervalNs: 10e6, flows: [{}] }), (result) => {
      const recovery = result.rows('sockets.rec').filter((row) => row['state'] === 3);
      assert.ok(recovery.length > 40, `${recovery.length} samples in recovery`);
      const short = recovery.filter((row) => row['in_flight']! < row['cwnd']!);
      assert.ok(short.length < 0.05 * recovery.length, `${short.length} of ${recovery.length} samples with room in the window`);
    }, { aqms: kinds });
  });

  it('acknowledges in recovery as Linux 6.12 does: compressed, by a left-over delayed-ACK timer, at reads (__tcp_ack_snd_check, tcp_delack_timer_handler, tcp_cleanup_rbuf)', () => {
    // One Reno flow through CoDel, 20 Mbit/s, 50 ms; instants at which Linux 6.12 sent to the bottleneck, ms. Acknowledgements are compressed; at
    // 400 ms one is sent by the timer left over from before the loss, so that nothing is sent between 449.5 and 451.4. The segment that fills the hole at
    // 566.8 ms completes a read, and is acknowledged as the first of three duplicates: the next but two is compressed.
    const seen = [[447.1127, 448.3246, 449.5355, 451.3526, 452.5635, 453.7746], [616.7923, 617.3975, 618.0035, 619.7094, 620.9201, 622.1315]];
    const sysctls = { 'net.ipv4.tcp_rmem': '4096\t131072\t256901120', 'net.ipv4.tcp_wmem': '4096\t16384\t256901120' };
    withRun(dumbbell({ rateBps: 20e6, queue: queue('codel'), pairs: 1, rttNs: 50e6, durationNs: 1e9, flows: [{}], sysctls }), (result) => {
      const times = result.rows('packets-BL1.rec').map((row) => row['t_enqueue']! / 1e6).sort((a, b) => a - b).filter((t, i, all) => i === 0 || t - all[i - 1]! > 0.05);
      for (const expected of seen) {
        const found = times.filter((t) => t > expected[0]! - 0.3 && t < expected.at(-1)! + 0.3);
        assert.equal(found.length, expected.length, `at ${found.map((t) => t.toFixed(3)).join(', ')} ms`);
        // The guest's clock costs 0.06 ms by then.
        found.forEach((t, i) => assert.ok(Math.abs(t - expected[i]!) < 0.1, `at ${t.toFixed(3)} and not ${expected[i]} ms`));
      }
    });
  });

  it('waits a quarter of the least round trip and 2 ms for what may be reordered, in jiffies (tcp_rack_mark_lost, TCP_TIMEOUT_MIN_US)', () => {
    // The third and fourth segments are lost, the FIN behind them arrives: 12.5 + 2 ms are 2 jiffies, the third ends the wait.
    withRun(dumbbell({ ...unloaded, rttNs: 50e6, queue: queue('chosen'), durationNs: 3e9, flows: [{ bytes: 4 * 1448 }] }), (result) => {
      const rows = result.rows('packets-BL1.rec').filter((row) => row['size']! > 100);
      const sent = rows[0]!['t_enqueue']!;
      const acked = sent + 50e6;
      const again = rows.find((row) => row['t_enqueue']! > acked)!;
      assert.equal(again['t_enqueue']! - acked, 30e6);
    }, { aqms: chosen([4, 5]) });
  });

  it('sends paced flows as Linux 6.12 sent them: what a host\'s fq holds counts against small queues as bursts do, and lost bursts are repeated as bursts (tcp_small_queue_check, tso_fragment, tcp_xmit_retransmit_queue)', () => {
    // Arrivals at the bottleneck, ms. Reno and the host's fq, 80 segments through 1 Mbit/s with room for 6 packets: from 500 ms on two bursts wait in fq and no third, so that window is
    // left, the send buffer grows, and the application keeps up in recovery. 31 segments through 500 kbit/s: the fourth burst has a buffer of its own while it waits, so that the
    // 31st segment finds no room at first; it, or three of 33, are written after two acknowledgements that came together, and the FIN leaves alone. BBR, 35 segments: both lost ones are repeated at 1310 ms, when the reordering timer fires.
    const seen = [
      ['fq', 'reno', 80, 1e6, 6, 20, '0.0 250.0 250.0 250.0 250.0 250.0 250.0 250.0 250.1 250.1 250.1 250.1 500.0 500.0 511.4 511.4 532.2 532.2 551.6 551.6 569.8 569.8 587.0 587.0 603.5 603.5 750.0 762.1 786.3 810.6 834.8 871.1 883.2 895.3 1000.0 1012.1 1036.3 1060.6 1084.8 1121.1 1134.7 1161.6 1250.0 1263.4 1263.4 1310.8 1334.4 1358.0 1381.5 1405.0 1428.4 1500.0 1513.4 1535.0 1535.0 1577.0 1598.0 1618.9 1639.8 1660.8 1681.7 1750.0 1763.4 1785.0 1802.2 1802.2 1840.2 1859.1 1878.1 1897.1 1916.0 1935.0 2000.0 2013.4 2035.0 2052.2 2066.3 2066.3 2101.1 2118.4 2135.8 2153.2 2170.6 2187.9 2250.0 2500.0'],
      ['fq', 'reno', 31, 500e3, 10, 20, '0.0 250.0 250.0 250.0 250.0 250.0 250.0 250.0 250.1 250.1 250.1 250.1 500.0 500.0 511.4 511.4 532.2 532.2 551.7 551.7 573.7 573.7 598.0 598.0 622.2 622.2 646.4 646.4 670.6 670.6 694.8 694.8 750.0 753.6 1234.5'],
      ['fq', 'reno', 33, 500e3, 10, 340, '0.0 250.0 250.0 250.0 250.0 250.0 250.0 250.0 250.1 250.1 250.1 250.1 500.0 500.0 511.4 511.4 532.2 532.2 551.7 551.7 573.7 573.7 598.0 598.0 622.2 622.2 646.4 646.4 670.6 670.6 694.8 694.8 750.0 750.0 757.1 764.3 2140.0 2390.0 2640.0'],
      ['pfifo', 'bbr', 35, 500e3, 10, 20, '0.0 250.0 250.0 250.0 250.0 250.0 250.0 250.0 250.0 250.0 250.0 250.0 500.0 500.0 508.8 508.8 526.2 526.2 549.5 549.5 573.7 573.7 598.0 598.0 622.2 622.2 646.4 646.4 670.6 670.6 694.8 694.8 750.0 750.0 758.8 758.8 774.7 1310.0 1310.0 1560.0'],
    ] as const;
    // The start, ms, is that of the kernel's flow within a slot of the timer wheel of 640 ms.
    for (const [kind, cc, segments, rateBps, limit, startMs, times] of seen) {
      const plan = dumbbell({ rateBps, queue: queue('pfifo', { limit }), pairs: 1, rttNs: 250e6, durationNs: 4e9, flows: [{ bytes: segments * 1448, cc, startNs: startMs * 1e6 }] });
      withRun(withHostQueue(plan, kind), (result) => {
        const found = result.rows('packets-BL1.rec').map((row) => row['t_enqueue']! / 1e6 - startMs).sort((a, b) => a - b);
        assert.equal(found.length, times.split(' ').length, `${kind}, ${cc}, ${segments} segments`);
        times.split(' ').forEach((at, i) => assert.ok(Math.abs(found[i]! - Number(at)) < 0.15, `${kind}, ${cc}, packet ${i}: at ${found[i]!.toFixed(1)} and not ${at} ms`));
      });
    }
  });

  it('halves the window of a flow that paused for each retransmission timeout, down to the initial one (tcp_cwnd_restart)', () => {
    // 300 kB each second (Reno) and each 1.5 s (CUBIC), 50 ms of round trip; packets that arrived at the bottleneck in each 25 ms from the start of a chunk on.
    const seen = [
      ['reno', 1000, 1, '54 0 80 28 46'],
      ['reno', 1000, 2, '32 0 64 0 80 32'],
      ['cubic', 1500, 1, '10 0 20 0 40 0 80 0 58'],
    ] as const;
    for (const [cc, everyMs, chunk, counts] of seen) {
      const startMs = 100;
      const chunks = Array.from({ length: 3 }, (_, i): [number, number] => [(startMs + i * everyMs) * 1e6, 300e3]);
      withRun(dumbbell({ rateBps: 20e6, queue: queue('pfifo', { limit: 1000 }), pairs: 1, rttNs: 50e6, durationNs: 4e9, flows: [{ kind: 'chunks', cc, startNs: startMs * 1e6, chunks }] }), (result) => {
        const found: number[] = [];
        for (const row of result.rows('packets-BL1.rec')) {
          const at = Math.floor((row['t_enqueue']! / 1e6 - startMs - chunk * everyMs + 1) / 25);
          if (at >= 0 && at < 20) found[at] = (found[at] ?? 0) + 1;
        }
        assert.equal(Array.from(found, (n) => n ?? 0).join(' '), counts, `${cc}, chunk ${chunk}`);
        assert.equal(result.flows[0]!.bytes, 900e3);
      });
    }
  });

  it('keeps what an application that pauses sends out of the bandwidth BBR believes in (tcp_rate_check_app_limited)', () => {
    // 300 kB each second at 20 Mbit/s and 50 ms: no round trip that shows the link's rate begins with data, so BBR stays in start-up, and Linux 6.12 sent the sixth chunk in bursts of four each
    // 0.89 ms. Whoever takes each sample for the link's has settled by then at a third of that.
    const chunks = Array.from({ length: 6 }, (_, i): [number, number] => [(500 + 1000 * i) * 1e6, 300e3]);
    const plan = dumbbell({ rateBps: 20e6, queue: queue('pfifo', { limit: 1000 }), pairs: 1, rttNs: 50e6, durationNs: 6e9, flows: [{ kind: 'chunks', cc: 'bbr', startNs: 500e6, chunks }] });
    withRun(plan, (result) => {
      const times = result.rows('packets-BL1.rec').map((row) => row['t_enqueue']! / 1e6).filter((at) => at > 5499 && at < 5504.5);
      assert.deepEqual([...new Set(times.map((at) => (at - 5500).toFixed(1)))].map((at) => `${times.filter((t) => (t - 5500).toFixed(1) === at).length} at ${at}`), ['4 at 0.0', '4 at 0.4', '4 at 1.3', '4 at 2.2', '4 at 3.1', '4 at 4.0']);
    });
  });

  it('lets a short segment wait for what fills it while an earlier one is not acknowledged (tcp_nagle_check, tcp_minshall_check)', () => {
    // 2 kB each 15 ms for 250 ms, 50 ms of round trip: arrivals at the bottleneck, ms and bytes. At its end the application closes, and what waits goes out.
    const seen = '0.0:60 50.0:52 50.0:1500 50.0:1500 50.0:1500 50.0:1500 50.0:1500 50.0:812 60.0:1500 75.0:1500 90.0:1500 90.0:1500 102.4:260 105.0:1500 120.0:1500 135.0:1500 135.0:1500 150.0:1500 152.4:812 165.0:1500 180.0:1500 195.0:1500 195.0:1500 202.4:260 210.0:1500 225.0:1500 240.0:1500 240.0:1500 250.0:260 300.0:52';
    const chunks = Array.from({ length: 17 }, (_, i): [number, number] => [15e6 * i, 2000]);
    withRun(dumbbell({ rateBps: 20e6, queue: queue('pfifo', { limit: 1000 }), pairs: 1, rttNs: 50e6, durationNs: 1e9, flows: [{ kind: 'chunks', chunks, stopNs: 250e6 }] }), (result) => {
      assert.equal(result.rows('packets-BL1.rec').map((row) => `${(row['t_enqueue']! / 1e6).toFixed(1)}:${row['size']}`).join(' '), seen);
      assert.deepEqual([result.flows[0]!.status, result.flows[0]!.bytes], ['complete', 34_000]);
    });
  });

  it('sets its timers later by the whole jiffies that a paced packet waits for its departure (tcp_pacing_delay)', () => {
    // The initial window is sent at 250 ms, and all of its acknowledgements are lost. Linux 6.12 sent the loss probe at 770 ms, 2 × 250 + 2 ms and a jiffy later. What
    // would follow the tenth segment departs 25 ms after it with fq: 2 jiffies; with BBR 17.5 ms: one.
    const delays = (loss: number) => ({ delayNs: 0, jitterNs: 0, loss, duplicate: 0, reorder: 0, limitPackets: 1000 });
    for (const [kind, cc, probeMs] of [['pfifo', 'reno', 770], ['fq', 'reno', 790], ['pfifo', 'bbr', 780]] as const) {
      const plan = dumbbell({
        rateBps: 100e6, queue: queue('pfifo', { limit: 1000 }), pairs: 1, rttNs: 250e6, durationNs: 4e9, flows: [{ bytes: 14 * 1448, cc }],
        events: [{ atNs: 450e6, direction: 'BL1.reverse', set: { wire: delays(1) } }, { atNs: 900e6, direction: 'BL1.reverse', set: { wire: delays(0) } }],
      });
      withRun(withHostQueue(plan, kind), (result) => {
        const times = result.rows('packets-BL1.rec').map((row) => row['t_enqueue']! / 1e6).sort((a, b) => a - b);
        assert.equal(times.filter((at) => at < 300).length, 12, 'SYN, acknowledgement, ten segments');
        assert.equal(times.find((at) => at > 300), probeMs, `${kind}, ${cc}`);
      });
    }
  });
});
