/**
 * An agent that breaks a rule of the field on purpose: the real agent with one part meddled with, as something else on
 * the machine could meddle. Which one, the plan's name says. Given to a machine in place of the agent (altered.ts).
 */

import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import { packetsWith } from '../../collectors/packets.js';
import { packets } from '../../collectors/packets.js';
import type { AgentContext, Traffic, TrafficFactory } from '../agent/context.js';
import { agentOptions, wiring } from '../agent/main.js';
import { runAgent, type AgentNetwork, type AgentOptions, type AgentWiring } from '../agent/run.js';
import type { Plan, PlanFlow } from '../plan/plan.js';

type Meddle = (network: AgentNetwork, plan: Plan) => void;

/** Programs that act on the namespace of the thread, in that of a node. */
const inNode = (network: AgentNetwork, node: string, command: string, ...args: readonly string[]): void => {
  network.inNode(node, () => execFileSync(command, args, { stdio: ['ignore', 'ignore', 'inherit'] }));
};
const link = (plan: Plan, name: string): Plan['links'][number] => plan.links.find((each) => each.name === name)!;
const tc = (network: AgentNetwork, plan: Plan, ...args: readonly string[]): void => { inNode(network, link(plan, 'BL').a.node, 'tc', ...args); };
const shaper = (...words: readonly string[]): Meddle => (network, plan) => {
  const { device } = link(plan, 'BL').a;
  tc(network, plan, 'class', 'change', 'dev', device, 'parent', '1:', 'classid', '1:1', 'htb', ...words);
};
const offload: Meddle = (network, plan) => {
  const { node, device } = link(plan, 'S[0]').a;
  inNode(network, node, 'ethtool', '-K', device, 'tso', 'on', 'gso', 'on');
};
const sysctl = (name: string, value: string): Meddle => (network) => { network.inNode('S[0]', () => { fs.writeFileSync(`/proc/sys/${name.replaceAll('.', '/')}`, value); }); };

/** Between set-up and its checks. */
const beforeChecks: Readonly<Record<string, Meddle>> = {
  'early-burst': shaper('rate', '20mbit', 'ceil', '20mbit', 'burst', '64kb', 'cburst', '64kb', 'quantum', '1514'),
  'early-rate': shaper('rate', '30mbit', 'ceil', '30mbit', 'burst', '1514', 'cburst', '1514', 'quantum', '1514'),
  'early-queue': (network, plan) => { tc(network, plan, 'qdisc', 'replace', 'dev', link(plan, 'BL').a.device, 'parent', '1:1', 'handle', '11:', 'pfifo', 'limit', '7'); },
  'early-offload': offload,
  'early-metrics': sysctl('net.ipv4.tcp_no_metrics_save', '0'),
};
/** From 10 ms to just before the end, so that nothing shows in what is set before and after. */
const meanwhile: Readonly<Record<string, readonly [Meddle, Meddle]>> = {
  'hidden-rate': [
    shaper('rate', '21mbit', 'ceil', '21mbit', 'burst', '1514', 'cburst', '1514', 'quantum', '1514'),
    shaper('rate', '20mbit', 'ceil', '20mbit', 'burst', '1514', 'cburst', '1514', 'quantum', '1514'),
  ],
  'hidden-slow': [
    shaper('rate', '19mbit', 'ceil', '19mbit', 'burst', '1514', 'cburst', '1514', 'quantum', '1514'),
    shaper('rate', '20mbit', 'ceil', '20mbit', 'burst', '1514', 'cburst', '1514', 'quantum', '1514'),
  ],
};
/** At 0.7 s of the run. */
const duringTraffic: Readonly<Record<string, Meddle>> = {
  'late-rate': shaper('rate', '30mbit', 'ceil', '30mbit', 'burst', '1514', 'cburst', '1514', 'quantum', '1514'),
  'late-offload': offload,
  'late-metrics': sysctl('net.ipv4.tcp_no_metrics_save', '0'),
  'late-device': (network, plan) => { inNode(network, 'R1', 'ip', 'link', 'set', link(plan, 'BL').a.device, 'mtu', '1400'); },
  'late-bypass': (network, plan) => {
    // What is classified to HTB itself passes its classes by (net/sched/sch_htb.c, HTB_DIRECT).
    tc(network, plan, 'filter', 'add', 'dev', link(plan, 'BL').a.device, 'parent', '1:', 'protocol', 'all', 'matchall', 'flowid', '1:0');
  },
};

/** A traffic tool that meddles at times of the run, ns, beside its own work. */
function meddling(factory: TrafficFactory, meddles: readonly (readonly [number, Meddle])[], network: () => AgentNetwork, plan: Plan): TrafficFactory {
  return (context: AgentContext, flows: readonly PlanFlow[]): Traffic => {
    const own = factory(context, flows);
    return {
      name: own.name,
      start: () => {
        own.start();
        for (const [atNs, meddle] of meddles) context.loop.at(atNs, () => { meddle(network(), plan); });
      },
      end: () => { own.end(); },
      finished: () => own.finished(),
      stop: () => own.stop(),
    };
  };
}

function sabotaged(options: AgentOptions): AgentWiring {
  const plan = JSON.parse(fs.readFileSync(`${options.rawDir}/plan.json`, 'utf8')) as Plan;
  const { name } = plan;
  let made: AgentNetwork | undefined;
  const network: AgentWiring['network'] = async (of, how) => {
    const real = made = await wiring.network(of, how);
    return { ...real, verify: () => { beforeChecks[name]?.(real, plan); return real.verify(); } };
  };
  if (name === 'small-ring') return { ...wiring, collectors: wiring.collectors.map((each) => (each === packets ? packetsWith({ ringBytes: 1 }) : each)) };
  if (name.startsWith('fake-iperf3')) process.env['PATH'] = `${options.rawDir}/bin:${process.env['PATH']}`;
  if (name === 'port-taken') {
    return {
      ...wiring,
      network: async (of, how) => {
        const real = made = await wiring.network(of, how);
        const flow = of.flows[0]!;
        const { createServer } = await import('node:net');
        const server = createServer();
        // Listens with the thread in the receiver's namespace: Node makes the socket in this very call.
        real.inNode(flow.dst, () => server.listen(flow.dstPort));
        return real;
      },
    };
  }
  const [once, hidden] = [duringTraffic[name], meanwhile[name]];
  const meddles: (readonly [number, Meddle])[] = once !== undefined ? [[0.7e9, once]] : hidden !== undefined ? [[0.01e9, hidden[0]], [plan.warmupNs + plan.durationNs - 1e6, hidden[1]]] : [];
  if (meddles.length === 0) return { ...wiring, network };
  return { ...wiring, network, traffic: Object.fromEntries(Object.entries(wiring.traffic).map(([tool, factory]) => [tool, meddling(factory, meddles, () => made!, plan)])) };
}

const options = agentOptions(process.argv.slice(2));
process.exit(await runAgent(options, sabotaged(options)));
