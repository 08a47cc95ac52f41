/**
 * FQ: the fair queue scheduler of Linux 6.12 (net/sched/sch_fq.c): three bands in weighted round robin by priority, in
 * each deficit round robin over flows with new ones first, a limit of packets a band and a flow, and the fast path
 * that lets up to 8 packets through while no flow waits.
 *
 * Differences from Linux:
 * - No pacing (`maxrate`, `pacing`, `horizon`, EDT time stamps): at a router packets belong to no socket and Linux does
 *   not pace them either, unless maxrate is set. Senders of the simulator pace themselves.
 * - A flow is the packet's key masked by `orphan_mask`, as for every forwarded packet; there are no sockets.
 * - Idle flows are kept; Linux may forget one after 3 s, which then starts again with `initial_quantum`.
 */

import { fq as qdisc } from '../testbed/qdiscs/fq.js';
import { UserError } from '../testbed/errors.js';
import type { AqmContext, AqmKind, QueuedPacket } from './aqm.js';
import { Discipline } from './discipline.js';
import { setCe } from './ecn.js';
import { FlowList, type ListedFlow } from './flow-list.js';
import { jiffiesNs, timeoutNs } from './jiffies.js';
import { PacketFifo } from './packet-fifo.js';
import { number } from './params.js';
import { bandOfDscp } from './priority.js';

const BANDS = 3;
/** Bytes a band may send a round: 9 : 3 : 1. */
const BAND_QUANTUM = [9 << 16, 3 << 16, 1 << 16] as const;
const FAST_PATH_PACKETS = 8;

class Flow extends PacketFifo implements ListedFlow<Flow> {
  nextFlow: Flow | null = null;
  listed = false;
  band = 0;
  constructor(public credit: number, public emptiedNs: number) { super(); }
}

class Band {
  readonly newFlows = new FlowList<Flow>();
  readonly oldFlows = new FlowList<Flow>();
  credit = 0;
  packets = 0;
  constructor(readonly quantum: number) {}
}

class Fq extends Discipline {
  /** By masked flow key; filled as flows appear. */
  private readonly flows = new Map<number, Flow>();
  private readonly fastPath = new PacketFifo();
  private readonly bands = BAND_QUANTUM.map((bytes) => new Band(bytes));
  private bandNumber = 0;
  private activeFlows = 0;
  private flowsPlimit = 0;

  constructor(
    context: AqmContext,
    private readonly limit: number,
    private readonly flowLimit: number,
    private readonly quantum: number,
    private readonly initialQuantum: number,
    private readonly orphanMask: number,
    private readonly refillDelayNs: number,
    private readonly ceThresholdNs: number,
  ) {
    super(context);
  }

  override enqueue(packet: QueuedPacket, nowNs: number): void {
    packet.enqueueNs = nowNs;
    const bandNumber = bandOfDscp(packet.dscp);
    const band = this.bands[bandNumber]!;
    if (band.packets >= this.limit) {
      this.context.drop(packet, 'limit', nowNs);
      return;
    }
    if (this.backlogPackets === 0 || (this.activeFlows === 0 && this.fastPath.packets < FAST_PATH_PACKETS)) {
      this.fastPath.push(packet);
    } else {
      const key = packet.flowHash & this.orphanMask;
      let flow = this.flows.get(key);
      if (flow === undefined) {
        flow = new Flow(this.initialQuantum, jiffiesNs(nowNs));
        this.flows.set(key, flow);
      }
      if (flow.packets >= this.flowLimit) {
        this.flowsPlimit++;
        this.context.drop(packet, 'limit', nowNs);
        return;
      }
      if (!flow.listed) {
        // The list of the band it had, as in fq_enqueue(); the new band counts from its next turn.
        this.bands[flow.band]!.newFlows.add(flow);
        if (jiffiesNs(nowNs) > flow.emptiedNs + this.refillDelayNs) flow.credit = Math.max(flow.credit, this.quantum);
      }
      flow.band = bandNumber;
      band.packets++;
      if (flow.packets === 0) this.activeFlows++;
      flow.push(packet);
    }
    this.backlogPackets++;
    this.backlogBytes += packet.size;
  }

  override dequeue(nowNs: number): QueuedPacket | null {
    if (this.backlogPackets === 0) return null;
    const first = this.fastPath.shift();
    if (first !== null) {
      this.backlogPackets--;
      this.backlogBytes -= first.size;
      return first;
    }
    let band = this.bands[this.bandNumber]!;
    let retries = 0;
    for (;;) {
      const list = band.credit <= 0 ? null : band.newFlows.head !== null ? band.newFlows : band.oldFlows;
      const flow = list === null ? null : list.head;
      if (list === null || flow === null) {
        let found = false;
        while (!found && ++retries <= BANDS) {
          this.bandNumber = this.bandNumber + 1 === BANDS ? 0 : this.bandNumber + 1;
          band = this.bands[this.bandNumber]!;
          band.credit = Math.min(band.credit + band.quantum, band.quantum);
          if (band.credit > 0) found = true;
          else retries = 0;
        }
        if (!found) return null;
        continue;
      }
      retries = 0;
      if (flow.credit <= 0) {
        flow.credit += this.quantum;
        list.shift();
        this.bands[flow.band]!.oldFlows.add(flow);
        continue;
      }
      const packet = flow.shift();
      if (packet === null) {
        list.shift();
        if (list === band.newFlows) this.bands[flow.band]!.oldFlows.add(flow);
        else flow.emptiedNs = jiffiesNs(nowNs);
        continue;
      }
      if (nowNs - packet.enqueueNs - this.ceThresholdNs > 0 && setCe(packet)) this.marks++;
      if (flow.packets === 0) this.activeFlows--;
      this.bands[bandOfDscp(packet.dscp)]!.packets--;
      this.backlogPackets--;
      this.backlogBytes -= packet.size;
      flow.credit -= packet.size;
      band.credit -= packet.size;
      return packet;
    }
  }

  override readState(into: Float64Array): void {
    into[0] = this.flows.size;
    into[1] = this.flows.size - this.activeFlows;
    into[2] = 0;
    into[3] = 0;
    into[4] = this.flowsPlimit;
    into[5] = 0;
    into[6] = 0;
    into[7] = 0;
  }
}

export const fq: AqmKind = {
  kind: 'fq',
  schema: qdisc.schema,
  state: qdisc.state,
  create(params, context) {
    for (const key of ['maxrate', 'low_rate_threshold'] as const) {
      if (params[key] !== undefined) throw new UserError(`queue fq: ${key} paces flows, which is not simulated; leave it out or use --engine kernel`);
    }
    const mtu = Math.min(Math.max(context.mtuBytes, 1), 1 << 20);
    return new Fq(
      context,
      number(params, 'limit', 10000),
      number(params, 'flow_limit', 100),
      Math.max(256, number(params, 'quantum', Math.min(2 * mtu, 1 << 20))),
      number(params, 'initial_quantum', Math.min(10 * mtu, 1 << 20)),
      number(params, 'orphan_mask', 1023),
      timeoutNs(number(params, 'refill_delay', 40e6)),
      number(params, 'ce_threshold', 0xffffffff * 1000),
    );
  },
};
