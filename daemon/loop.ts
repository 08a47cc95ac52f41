/**
 * The packet loop of the daemon: real packets through links (link.ts), on time. What happens in a link follows from when packets came
 * and from its schedule alone, so it is worked out event by event as in a simulation, and real time only decides when a packet that is
 * due goes out. The loop therefore sleeps until the next packet is due and fetches what came meanwhile then, with the kernel's time
 * stamps, unless a packet that comes could be due earlier.
 *
 * One thread, which never returns to Node's event loop: control comes by standard input (`begin NS`, end of file), polled with the packets.
 */

import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { PacketReader } from '../collectors/packet-reader.js';
import { Actor, before, EventQueue } from '../simulator/events.js';
import { hash32 } from '../simulator/random.js';
import { Lateness } from '../testbed/agent/loop.js';
import { UserError } from '../testbed/errors.js';
import { CLOCK_MONOTONIC, clockNs, stable, SystemError, trySchedSetscheduler } from '../testbed/linux/libc.js';
import type { DaemonConfig, DaemonLine, DaemonStatistics, LatenessReport } from './config.js';
import { DeviceWatch, type WatchedDevice } from './device-watch.js';
import { Link } from './link.js';
import { Pace } from './pace.js';
import { readPacket } from './packet.js';
import type { Port } from './port.js';
import { PacketRecords, QueueSamples } from './records.js';
import { ipAt, SlotPool, type Slot } from './slots.js';
import { tryPpoll } from './system.js';

const [POLLIN, POLLERR_HUP_NVAL] = [1, 0x38] as const;
const [SCHED_OTHER, SCHED_FIFO] = [0, 1] as const;
const { EINTR, EAGAIN } = os.constants.errno;
const second = 1e9;
/** Packets wait in the ring no longer than this when nothing is due, ns. */
const longestUnfetchedNs = 2e6;
/** Between two looks at the processor's speed, ns. */
const paceNs = 1e6;
/** What waited while it was slow is sent by then, ns. */
const settleNs = 20e6;
const control = 0;

/** A change of the plan at its time. */
class Change extends Actor {
  constructor(events: EventQueue, atNs: number, private readonly call: () => void) {
    super();
    events.add(this);
    events.scheduleOrdered(this.actorId, atNs, before.planEvent);
  }
  override fire(): void { this.call(); }
}

const latenessReport = (lateness: Lateness): LatenessReport =>
  ({ packets: lateness.count, p50Ns: Math.round(lateness.quantile(0.5)), p99Ns: Math.round(lateness.quantile(0.99)), maxNs: Math.round(lateness.maxNs) });

export class PacketLoop {
  private readonly events = new EventQueue();
  private readonly pool: SlotPool;
  private readonly links: readonly Link[];
  private readonly byIn = new Map<number, Link>();
  private readonly seed: number;
  private reader: PacketReader | null = null;
  private records: (PacketRecords | QueueSamples)[] = [];
  private changes: number[] = [];
  private lateness = new Lateness();
  /** In real time only: in virtual time computing takes none. */
  private readonly pace: Pace | null;
  private pacedNs = 0;
  private latenessAtSpeed = new Lateness();
  private noSlot = 0;
  private notSent = 0;
  private lastErrno = 0;
  private ended = false;
  private nowNs = 0;
  private upkeepNs: number;
  private statisticsNs: number;
  private readonly real: boolean;
  private readonly pollfds: Buffer;
  private readonly watch: DeviceWatch | null;
  /** Descriptors polled in any case: control, and the watch. */
  private readonly first: number;
  private readonly timeout = stable(16);
  private readonly timeoutWords = new Uint32Array(this.timeout.buffer);
  private commands = '';

  constructor(private readonly config: DaemonConfig, private readonly port: Port, private readonly say: (line: DaemonLine) => void) {
    this.real = config.clock === 'real';
    this.pace = this.real ? new Pace() : null;
    this.seed = hash32(`${config.seed} flows`) | 0;
    this.pool = new SlotPool(port.slotBytes, config.memoryBytes);
    this.nowNs = clockNs(CLOCK_MONOTONIC);
    this.events.run(this.nowNs);
    this.links = config.directions.map((direction) => new Link(this.events, this.pool, direction, config.seed, this.send));
    config.directions.forEach((direction, i) => { this.byIn.set(direction.in, this.links[i]!); });
    this.watch = config.watch.length > 0 ? new DeviceWatch(config.watch) : null;
    const always = this.watch === null ? [control] : [control, this.watch.fd];
    this.first = always.length;
    this.pollfds = stable(8 * (this.first + port.fds.length));
    [...always, ...port.fds].forEach((fd, i) => {
      this.pollfds.writeInt32LE(fd, 8 * i);
      this.pollfds.writeInt16LE(POLLIN, 8 * i + 4);
    });
    this.upkeepNs = this.nowNs + second;
    this.statisticsNs = config.statisticsNs === null ? Infinity : this.nowNs + config.statisticsNs;
  }

  /** Runs until standard input ends or says `end`. @throws UserError when a device is gone; SystemError; the file system's errors (ENOSPC …) */
  run(): void {
    this.lookFor(this.watch?.missing() ?? null);
    try {
      while (!this.ended) {
        this.nowNs = clockNs(CLOCK_MONOTONIC);
        this.catchUp();
        if (this.nowNs >= this.upkeepNs) this.upkeep();
        if (this.nowNs >= this.statisticsNs) {
          this.say({ type: 'statistics', ...this.statistics() });
          this.statisticsNs = Math.max(this.statisticsNs + this.config.statisticsNs!, this.nowNs);
        }
        this.wait();
      }
    } finally {
      trySchedSetscheduler(0, SCHED_OTHER, stable(4));
    }
    for (const link of this.links) link.recordWaiting();
    for (const record of this.records) record.close();
    this.say({ type: 'summary', ...this.statistics() });
  }

  /**
   * Real-time policy: other programs do not delay packets, and the kernel adds no slack to waits (50 µs or 0.1 %, fs/select.c
   * select_estimate_accuracy), which would make them late in virtual time too.
   * @returns whether it was allowed
   */
  static raisePriority(): boolean {
    const priority = stable(4);
    priority.writeInt32LE(50);
    return trySchedSetscheduler(0, SCHED_FIFO, priority) >= 0;
  }

  /** All that came and all that is due up to now. */
  private catchUp(): void {
    const { events, port, nowNs } = this;
    let slot = this.pool.take() ?? this.spare();
    for (;;) {
      const cameNs = port.receive(slot, nowNs);
      if (cameNs < 0) break;
      // What is worked out already stays; a time stamp is never ahead of the clock but by its rounding.
      const atNs = Math.min(Math.max(cameNs, events.now), Math.max(nowNs, events.now));
      if (atNs > events.now || events.nextNs <= atNs) events.run(atNs);
      if (slot === this.spareSlot) this.noSlot++;
      else this.arrive(slot);
      slot = this.pool.take() ?? this.spare();
    }
    if (slot !== this.spareSlot) this.pool.give(slot);
    if (nowNs > events.now) events.run(nowNs);
  }

  /** Where packets go for which there is no memory. */
  private spareSlot: Slot | null = null;
  private spare(): Slot {
    this.spareSlot ??= new SlotPool(this.port.slotBytes, 1).take()!;
    return this.spareSlot;
  }

  private arrive(slot: Slot): void {
    const link = this.byIn.get(slot.from);
    if (link === undefined) {
      this.pool.give(slot);
      return;
    }
    const at = slot.at + ipAt;
    const length = slot.opaque ? 0 : slot.length;
    readPacket(slot, slot.view, at, length, this.seed);
    if (link.records !== null) {
      const { reader } = this;
      const known = length > 0 && reader!.read(slot.view, at, length, length, slot.view.getUint8(at) >>> 4 === 6 ? 0x86dd : 0x0800);
      slot.flow = known ? reader!.flow : -0x80000000;
      slot.forward = known ? reader!.forward : 1;
    }
    link.arrive(slot);
  }

  private readonly send = (slot: Slot, out: number, dueNs: number): void => {
    const result = this.port.send(slot, out);
    // What is read once a wake-up is late by what came before it, too.
    const sentNs = this.real ? clockNs(CLOCK_MONOTONIC) : this.nowNs;
    const lateNs = Math.max(0, sentNs - dueNs);
    this.lateness.add(lateNs);
    if (this.pace !== null) {
      // Here, too: when it is slow, there is much to send before the next wait.
      this.lookAtPace(this.pace, sentNs);
      if (sentNs - this.pace.slowNs > settleNs) this.latenessAtSpeed.add(lateNs);
    }
    if (result < 0) {
      this.notSent++;
      this.lastErrno = -result;
    }
    this.pool.give(slot);
  };

  private lookAtPace(pace: Pace, nowNs: number): void {
    if (nowNs - this.pacedNs < paceNs) return;
    this.pacedNs = nowNs;
    pace.sample(nowNs);
  }

  private wait(): void {
    const { links, nowNs, port } = this;
    if (this.pace !== null) this.lookAtPace(this.pace, nowNs);
    let dueNs = this.changes[0] ?? Infinity;
    let arrivalNs = Infinity;
    for (const link of links) {
      const next = link.nextOutNs;
      if (next < dueNs) dueNs = next;
      const arrival = link.nextOutOfArrival(nowNs);
      if (arrival < arrivalNs) arrivalNs = arrival;
    }
    const spin = dueNs !== Infinity && this.config.spinNs > 0;
    const wakeNs = Math.min(spin ? dueNs - this.config.spinNs : dueNs, this.upkeepNs, this.statisticsNs);
    const packetsToo = !port.timestamped || wakeNs > arrivalNs || wakeNs - nowNs > longestUnfetchedNs;
    // Up, or a remainder below 1 ns would be waited for for ever where time moves only while all sleep.
    const ns = Math.max(0, Math.ceil(wakeNs - (this.real ? clockNs(CLOCK_MONOTONIC) : nowNs)));
    const seconds = Math.floor(ns / second);
    this.timeoutWords[0] = seconds;
    this.timeoutWords[2] = ns - seconds * second;
    const ready = tryPpoll(this.pollfds, packetsToo ? this.first + port.fds.length : this.first, this.timeout, null);
    if (ready < 0 && ready !== -EINTR) throw new SystemError('ppoll', -ready);
    if (ready > 0 && this.pollfds.readInt16LE(6) !== 0) this.command();
    if (ready > 0 && this.watch !== null && this.pollfds.readInt16LE(8 + 6) !== 0) this.lookFor(this.watch.gone());
    if (spin && ready === 0) while (clockNs(CLOCK_MONOTONIC) < dueNs);
    if (ready > 0) {
      for (let i = 0; packetsToo && i < port.fds.length; i++) {
        // A descriptor with nothing but an error would be ready for ever.
        const events = this.pollfds.readInt16LE(8 * (this.first + i) + 6);
        if ((events & POLLIN) === 0 && (events & POLLERR_HUP_NVAL) !== 0) throw new UserError('a TUN device of the daemon was taken away', 1);
      }
    }
  }

  private lookFor(gone: WatchedDevice | null): void {
    if (gone !== null) throw new UserError(`the network device ${gone.name} is gone`, 1);
  }

  private command(): void {
    const bytes = Buffer.alloc(4096);
    let read = 0;
    try {
      read = fs.readSync(control, bytes);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).errno === -EAGAIN) return;
    }
    if (read === 0) {
      this.ended = true;
      return;
    }
    this.commands += bytes.toString('latin1', 0, read);
    const lines = this.commands.split('\n');
    this.commands = lines.pop() ?? '';
    for (const line of lines) {
      const [word, argument] = line.split(' ');
      if (word === 'end') this.ended = true;
      else if (word === 'begin') this.begin(Number(argument));
    }
  }

  /** Run time 0 is at `originNs` of CLOCK_MONOTONIC: records and the plan's events start. */
  private begin(originNs: number): void {
    const { config, events, links } = this;
    this.lateness = new Lateness();
    this.pace?.restart();
    this.latenessAtSpeed = new Lateness();
    for (const event of config.events) {
      const link = links.find(({ name }) => name === event.direction);
      if (link === undefined) continue;
      const atNs = Math.max(events.now, originNs + event.atNs);
      this.changes.push(atNs);
      new Change(events, atNs, () => {
        this.changes.shift();
        link.change(event);
      });
    }
    this.changes.sort((a, b) => a - b);
    const { records } = config;
    if (records === null) return;
    this.reader = new PacketReader(records.flows, records.probes, () => 0);
    config.directions.forEach(({ record }, i) => {
      const link = links[i]!;
      if (!record || !link.queues) return;
      if (records.packets) {
        link.records = new PacketRecords(path.join(records.folder, `packets-${link.name}.rec`), link.name, originNs);
        this.records.push(link.records);
      }
      this.records.push(new QueueSamples(events, link, path.join(records.folder, `queue-${link.name}.rec`), originNs, records.warmupNs, records.endNs, records.queueIntervalNs));
    });
  }

  private upkeep(): void {
    this.upkeepNs = this.nowNs + second;
    this.port.upkeep();
    for (const record of this.records) record.flush();
  }

  private statistics(): DaemonStatistics {
    this.port.upkeep();
    return {
      directions: this.links.map((link) => link.statistics()),
      lateness: latenessReport(this.lateness),
      pace: this.pace === null ? null : { ...this.pace.report(), lateness: latenessReport(this.latenessAtSpeed) },
      faults: { ...this.port.faults(), noSlot: this.noSlot, notSent: this.notSent, lastErrno: this.lastErrno },
    };
  }
}
