import assert from 'node:assert/strict';
import type { QueuedPacket } from '../aqm/aqm.js';
import { aqms } from '../aqm/registry.js';
import { Actor, EventQueue } from './events.js';
import { dumbbell, queue } from './fixture.js';
import type { Packet } from './packet.js';
import { chosen, withRun } from './testing.js';

/** What runs of Linux 6.12 in virtual time were seen to do, each with its place in the kernel's source. */
describe('The simulator does as Linux 6.12 was seen to do', () => {
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
      const bursts: [size: number, times: number][] = [];
      let size = 0;
      times.forEach((t, i) => {
        size++;
        if (times[i + 1]! - t < 50e3) return;
        const last = bursts.at(-1);
        if (last?.[0] === size) last[1]++;
        else bursts.push([size, 1]);
        size = 0;
      });
      assert.equal(bursts.map(([n, run]) => `${n}x${run}`).join(' ').slice(0, seen.length), seen);
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

  it('sets its timers later by the whole jiffies that a paced packet waits for its departure (tcp_pacing_delay)', () => {
    // The last four segments are lost, in the two bursts that the first acknowledgements of the initial window let go at 500 ms. The probe is due
    // 2 × 250 + 2 ms later: 51 jiffies, and one. With fq the second burst departs 11.4 ms later, and what would follow it 250 × 2 / 24 = 20.8 ms after that: 3 jiffies.
    const plan = dumbbell({ rateBps: 1e9, queue: queue('chosen'), pairs: 1, rttNs: 250e6, durationNs: 4e9, flows: [{ bytes: 14 * 1448 }] });
    for (const [kind, probeMs] of [['pfifo', 1020], ['fq', 1050]] as const) {
      const paced = { ...plan, links: plan.links.map((link) => (link.name === 'S[0]' ? { ...link, forward: { ...link.forward, rateBps: 1e9, shaper: 'htb' as const, queue: queue(kind) } } : link)) };
      withRun(paced, (result) => {
        const rows = result.rows('packets-BL1.rec');
        assert.equal(rows.filter((row) => row['dropped'] === 1).length, 4);
        assert.equal(Math.min(...rows.map((row) => row['t_enqueue']! / 1e6).filter((at) => at > 600)), probeMs);
      }, { aqms: new Map([...aqms, ...chosen([12, 13, 14, 15])]) });
    }
  });
});
