/**
 * The Plan: plain JSON that says everything that will happen in one run. The compiler makes it from a
 * Scenario and a seed; engines (kernel, simulator) execute it and never see the Scenario.
 *
 * Everything random (start times, arrivals, RTTs) is drawn at compile time from the seed, so both
 * engines get the very same workload. Times are ns from the start of the run, rates bits/s, sizes bytes.
 */

export interface Plan {
  readonly schema: 1;
  readonly name: string;
  readonly seed: number;
  /** What `vary` set for this run, e.g. `{ queue: "codel" }`; empty when nothing varies. */
  readonly varied: Readonly<Record<string, string>>;
  readonly warmupNs: number;
  /** The measurement window is [warmupNs, warmupNs + durationNs]; traffic stops at its end. */
  readonly durationNs: number;
  readonly nodes: readonly PlanNode[];
  readonly links: readonly PlanLink[];
  readonly flows: readonly PlanFlow[];
  readonly probes: readonly PlanProbe[];
  /** Tests of a tool that sends several flows and probes at once; those are in `flows` and `probes`. Absent: none. */
  readonly tests?: readonly PlanTest[];
  readonly events: readonly PlanEvent[];
  readonly collect: PlanCollect;
  readonly tcp: PlanTcp;
}

export interface PlanNode {
  /** As the user writes it: `S1[0]`, `R1`. */
  readonly name: string;
  readonly role: 'host' | 'router';
  /** Name of its network namespace or container, without the run's tag: `S1.0`, `R1`. */
  readonly netns: string;
  /** Static routes. Hosts have default routes, routers a route per remote subnet. */
  readonly routes: readonly PlanRoute[];
  /** sysctls of this node alone, set after those of `tcp`: `net.ipv4.tcp_ecn` where only some hosts ask for ECN. Absent: none. */
  readonly sysctls?: Readonly<Record<string, string>>;
}

export interface PlanRoute {
  /** Destination, CIDR: `10.0.3.0/24`, `0.0.0.0/0`, `fd00:3::/64`, `::/0`. */
  readonly to: string;
  /** Next hop's address. */
  readonly via: string;
  readonly device: string;
}

/** A cable between two nodes with a queue at each end. Physical order of one direction: queue and shaper at the sending end, then the wire (delay, loss), then the receiving end. */
export interface PlanLink {
  /** `BL1` for a link of `topology.links`; `S1[0]` for that host's access link. */
  readonly name: string;
  /** Only bottlenecks appear in queue and packet records and in the metrics. */
  readonly role: 'bottleneck' | 'access';
  /** `between[0]`, or the host of an access link. */
  readonly a: PlanInterface;
  /** `between[1]`, or the router of an access link. */
  readonly b: PlanInterface;
  /** IP MTU, bytes. */
  readonly mtuBytes: number;
  /** a → b; called by the link's name. */
  readonly forward: PlanDirection;
  /** b → a; called `<name>.reverse`. */
  readonly reverse: PlanDirection;
}

export interface PlanInterface {
  readonly node: string;
  /** Interface name inside the node, ≤ 15 characters. */
  readonly device: string;
  /** With prefix length: `10.0.1.1/24`, `fd00:1::1/64`. */
  readonly addresses: readonly string[];
}

export interface PlanDirection {
  /** `BL1` or `BL1.reverse`: the key in metrics and records. */
  readonly name: string;
  /** null: as fast as the cable (no shaper, no queue of ours). */
  readonly rateBps: number | null;
  readonly shaper: 'htb' | 'tbf' | null;
  /** TBF's buckets where they are not one packet deep. Absent: one packet, no peak rate. */
  readonly bucket?: PlanBucket;
  /**
   * Link-layer bytes the shaper counts with each packet: 14 (Ethernet header), as Linux's shapers do unless
   * told. Another value is set with a size table (`stab overhead`). Serialisation time of a packet is
   * (IP bytes + overheadBytes) × 8 / rateBps.
   */
  readonly overheadBytes: number;
  /** null where nothing can queue (rateBps null). */
  readonly queue: PlanQueue | null;
  /** What the wire does to packets after they leave the queue. Empty: nothing. First match by destination decides; an entry without `to` matches all. */
  readonly wire: readonly PlanWire[];
}

export interface PlanBucket {
  /** What the shaper may save up, bytes as it counts them; at least one packet. */
  readonly burstBytes: number;
  /** What it saved leaves no faster than this, from a second bucket one packet deep, bits/s; above the rate. null: at once. */
  readonly peakRateBps: number | null;
}

export interface PlanQueue {
  /** tc's name of the qdisc (`fq_codel`) or an AQM's of aqm/ (`aqmrd`), or `raw` with `tc` set. */
  readonly kind: string;
  readonly in: 'kernel' | 'daemon';
  /** Validated, units resolved (times ns, sizes bytes, rates bits/s), only what the user set; absent = the qdisc's default. */
  readonly params: Readonly<Record<string, number | boolean | string>>;
  /** For kind `raw`: tc's words after `parent X handle Y`, never through a shell. */
  readonly tc?: readonly string[];
}

export interface PlanWire {
  /** Destination addresses (no prefix) this entry applies to; absent = every packet. */
  readonly to?: readonly string[];
  readonly delayNs: number;
  readonly jitterNs: number;
  /** Probabilities 0 … 1 (independent per packet). */
  readonly loss: number;
  readonly duplicate: number;
  /** Fraction of packets that are sent at once, overtaking the delayed ones (netem `reorder`). */
  readonly reorder: number;
  /** netem's `limit`, packets: derived from rate × delay with head room; a drop here makes the run invalid. */
  readonly limitPackets: number;
}

export interface PlanFlow {
  /** Row key in every table; 0 … flows.length − 1, also the index in `flows`. */
  readonly id: number;
  /** Name in the scenario's `traffic`. */
  readonly class: string;
  /** What the user asked for; engines only need `transport` and the fields below. */
  readonly kind: 'bulk' | 'short' | 'chunks' | 'cbr' | 'onoff';
  readonly transport: 'tcp' | 'udp';
  readonly tool: string;
  readonly src: string;
  readonly dst: string;
  readonly srcAddress: string;
  readonly dstAddress: string;
  /** Bound before connecting, so that (src, srcPort, dst, dstPort) identifies the flow in captures. */
  readonly srcPort: number;
  readonly dstPort: number;
  readonly startNs: number;
  /** End of sending; null for a flow that ends when its bytes are through. Never after the end of the window. */
  readonly stopNs: number | null;
  /** TCP: payload bytes to send; null = until stopNs, in chunks if there are any. */
  readonly bytes: number | null;
  /** TCP congestion control, Linux's name; null for UDP. */
  readonly cc: string | null;
  readonly ecn: boolean;
  /** UDP: sending rate at the IP layer, bits/s, and IP packet size, bytes. null for TCP. */
  readonly rateBps: number | null;
  readonly packetBytes: number | null;
  /** UDP on-off: [start, stop] ns pairs during which it sends; null = from startNs to stopNs. */
  readonly bursts: readonly (readonly [number, number])[] | null;
  /** TCP that pauses: [time in ns, payload bytes] of each chunk that the application writes; absent = it always has more. */
  readonly chunks?: readonly (readonly [number, number])[];
  /** Extra arguments for the tool, as the user wrote them (argument array, never a shell). */
  readonly toolArgs: readonly string[];
  /** Two-way propagation delay configured on its path, ns (queueing and serialisation not included). */
  readonly baseRttNs: number;
}

export interface PlanProbe {
  /** Row key: 0 … */
  readonly id: number;
  /** Name in the scenario's `probes`. */
  readonly name: string;
  /** The program that sends it; `fping` and `irtt` are started by a test (`tests`). */
  readonly tool: 'builtin' | 'ping' | 'fping' | 'irtt';
  readonly src: string;
  readonly dst: string;
  readonly srcAddress: string;
  readonly dstAddress: string;
  readonly port: number;
  readonly startNs: number;
  readonly stopNs: number;
  readonly intervalNs: number;
  /** IP packet size, bytes. */
  readonly sizeBytes: number;
}

/** One run of a test tool on a host. Its flows have `tool: flent`; which series of the tool each flow and probe is, is said here. */
export interface PlanTest {
  readonly id: number;
  readonly tool: 'flent';
  /** Name in the scenario's `traffic`. */
  readonly class: string;
  /** The tool's name of the test: `rrul`. */
  readonly test: string;
  /** Where the tool runs. */
  readonly src: string;
  readonly srcAddress: string;
  /** The tool's hosts, in its order. */
  readonly hosts: readonly { readonly node: string; readonly address: string }[];
  /** When the tool starts; it takes a moment until its first packet. */
  readonly startNs: number;
  /** Whole seconds, as the tool takes them: of the streams, and of pings alone before and after them. */
  readonly lengthSeconds: number;
  readonly delaySeconds: number;
  /** Of the whole test. */
  readonly totalSeconds: number;
  readonly stepSeconds: number;
  readonly parameters: Readonly<Record<string, string>>;
  readonly args: readonly string[];
  readonly series: readonly PlanSeries[];
}

/** A series that the tool measures (not one it computes of others). */
export interface PlanSeries {
  /** The tool's name for it: `TCP upload BE`. */
  readonly name: string;
  /** The program that the tool starts for it on `src`. */
  readonly program: string;
  /** The receiving host, where the program has a server started (netserver, irtt server, iperf -s). */
  readonly host: string;
  /** Which flow, or which probe, it is; both null: it is in the tool's own file only. */
  readonly flow: number | null;
  readonly probe: number | null;
  /** DSCP marking as the tool writes it: `CS1,CS1`; null: none. */
  readonly marking: string | null;
}

/** A change at a time: `at: 20s, set BL1.rate: 5mbit`. */
export interface PlanEvent {
  readonly atNs: number;
  /** A direction's name: `BL1` or `BL1.reverse`. */
  readonly direction: string;
  /** The new values; absent = unchanged. `wire` replaces the entry without `to`; `queue` has all parameters that are set then, of the same kind. */
  readonly set: {
    readonly rateBps?: number;
    readonly wire?: PlanWire;
    readonly queue?: PlanQueue;
  };
}

export interface PlanCollect {
  /** Sampling interval of qdisc statistics, ns; null = only at the edges of the window. */
  readonly queueIntervalNs: number | null;
  /** INET_DIAG interval, ns; null = only at the edges of the window. */
  readonly socketIntervalNs: number | null;
  /** A record of every packet through every bottleneck. */
  readonly packets: boolean;
}

export interface PlanTcp {
  /** sysctls pinned in every host, e.g. `net.ipv4.tcp_no_metrics_save: "1"`. */
  readonly hostSysctls: Readonly<Record<string, string>>;
  readonly routerSysctls: Readonly<Record<string, string>>;
  /** For the simulator: `linux` or `classic` (NewReno-like, an ACK a packet). */
  readonly model: 'linux' | 'classic';
}
