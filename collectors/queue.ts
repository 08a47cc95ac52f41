/**
 * Samples of every bottleneck's queue discipline: backlog, cumulative bytes, packets, drops and marks, and the AQM's
 * own state, every `collect.queueIntervalNs` and always exactly when the measurement window opens and closes. One
 * system call a sample and router: answers wait in the socket and are taken several at a time. Writes
 * raw/queue-<direction>.rec.
 *
 * The figures are those of the queue discipline under test itself, below the shaper. Of a classful one (drr, ets)
 * they are its own totals: the kernel keeps backlog and drops of the classes in the parent's. A queue in the
 * userspace daemon is sampled by the daemon.
 */

import type { AgentContext, BottleneckQueues, Collector } from '../testbed/agent/context.js';
import { QdiscStatsReader } from '../testbed/linux/qdisc-stats.js';
import type { QdiscStats } from '../testbed/linux/qdisc-stats.js';
import type { PlanQueue } from '../testbed/plan/plan.js';
import type { Qdisc } from '../testbed/qdiscs/qdisc.js';
import { qdiscs } from '../testbed/qdiscs/registry.js';
import { queueFields } from '../testbed/records/raw.js';
import { RecordWriter } from '../testbed/records/record-file.js';
import { sampleAt } from './sampling.js';
import { bottlenecksByNode } from './routing.js';
import type { RouterBottleneck } from './routing.js';

/** The discipline of a plan's queue: of a raw one by tc's first word. */
const disciplineOf = (queue: PlanQueue): Qdisc | undefined => {
  const kind = queue.kind === 'raw' ? queue.tc?.[0] : queue.kind;
  return kind === undefined ? undefined : qdiscs.get(kind);
};

class RouterQueues {
  private readonly reader: QdiscStatsReader;
  private readonly writers: readonly RecordWriter[];
  private readonly disciplines: readonly (Qdisc | undefined)[];
  private readonly stateless: readonly number[];
  private missed = 0;
  private reason = 0;
  /** When each asking was, whose answers still wait. */
  private readonly askedNs: number[] = [];

  constructor(private readonly context: AgentContext, network: BottleneckQueues, private readonly node: string, private readonly bottlenecks: readonly RouterBottleneck[]) {
    const places = bottlenecks.map(({ direction }) => network.bottleneck(direction.name));
    this.disciplines = bottlenecks.map(({ direction }) => disciplineOf(direction.queue!));
    this.stateless = [];
    this.reader = context.inNode(node, () => new QdiscStatsReader(places));
    this.writers = bottlenecks.map(({ direction }, i) => new RecordWriter(
      context.raw(`queue-${direction.name}.rec`), 'queue', { bottleneck: direction.name },
      [...queueFields, ...(this.disciplines[i]?.state ?? []).map((name) => ({ name, type: 'f64' as const }))],
      32 * 1024,
    ));
  }

  sample(nowNs: number): void {
    this.askedNs.push(nowNs);
    if (this.reader.ask()) this.collect();
  }

  flush(): void {
    this.collect();
    for (const writer of this.writers) writer.flush();
  }

  /** Takes the answers that wait. */
  private collect(): void {
    if (this.askedNs.length === 0) return;
    this.reader.collect(this.visit, this.absent);
    this.askedNs.length = 0;
  }
  private readonly visit = (asking: number, index: number, stats: QdiscStats): void => {
    const discipline = this.disciplines[index];
    // A discipline of another kind than the plan says would be decoded wrongly.
    const known = discipline?.kind === stats.kind ? discipline : undefined;
    const own = known?.statsIn === 'options' ? stats.options : stats.own;
    this.writers[index]!.row(
      this.askedNs[asking]!, stats.backlogBytes, stats.backlogPackets, stats.sentBytes, stats.sentPackets, stats.drops, known ? known.decodeMarks(own) : NaN,
      ...(known ? known.decodeState(own) : discipline ? discipline.state.map(() => NaN) : this.stateless),
    );
  };
  private readonly absent = (_asking: number, _index: number, errno: number): void => {
    this.missed++;
    this.reason = errno;
  };

  stop(): void {
    this.collect();
    this.reader.close();
    for (const writer of this.writers) writer.close();
    if (this.missed > 0) {
      this.context.finding('invalid', 'queue-samples-missing',
        `${this.node}: ${this.missed} samples of ${this.bottlenecks.map(({ direction }) => direction.name).join(', ')} got no answer from the kernel (errno ${this.reason}): the queue discipline was removed or replaced during the run. Nothing but testbed may change it.`);
    }
  }
}

export const queue = (context: AgentContext, network: BottleneckQueues): Collector | null => {
  const routers = bottlenecksByNode(context.plan);
  if (routers.size === 0) return null;
  let sampled: readonly RouterQueues[] = [];
  return {
    name: 'queue',
    start() {
      sampled = [...routers].map(([node, bottlenecks]) => new RouterQueues(context, network, node, bottlenecks));
      const sample = (nowNs: number): void => { for (const router of sampled) router.sample(nowNs); };
      sampleAt(context, context.plan.collect.queueIntervalNs, sample);
    },
    flush() {
      for (const router of sampled) router.flush();
    },
    stop() {
      for (const router of sampled) router.stop();
    },
  };
};
