/** Carries out steps on this kernel: namespaces by the hosts layer, the rest by netlink, a batch a namespace. */

import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { UserError } from '../errors.js';
import type { Hosts } from '../hosts/hosts.js';
import { offloadsOff, syncLink } from '../linux/ethtool.js';
import { SystemError } from '../linux/libc.js';
import { NetlinkError, NetlinkSocket, type Request } from '../linux/netlink.js';
import {
  deleteLinkGroup, handleOf, handleWord, linkUp, listLinks, newAddress, newFilter, newNeighbour, newRoute, newVeth, parseLink, setClass, setQdisc, TC_H_INGRESS,
} from '../linux/rtnetlink.js';
import { qdiscs } from '../qdiscs/registry.js';
import { linkGroup, redirectOptions, type Layout, type Step } from './steps.js';

const protocols = { all: 3, ip: 0x0800, ipv6: 0x86dd } as const; // ETH_P_…
const ingressHandle = handleOf(0xffff);

/** Where a step happens and what it does, for messages. */
export function describe(step: Step): { readonly where: string; readonly what: string } {
  if (step.do === 'namespace') return { where: `node ${step.node}`, what: 'make it' };
  if (step.do === 'sysctl') return { where: `node ${step.node}`, what: `set sysctl ${step.name} = ${step.value}` };
  if (step.do === 'link') return { where: `node ${step.a.node}, device ${step.a.device}`, what: `link it with device ${step.b.device} of node ${step.b.node}` };
  const where = `node ${step.node}, device ${step.device}`;
  switch (step.do) {
    case 'offloads': return { where, what: step.checksums ? 'turn segmentation and checksum offloads off' : 'turn segmentation offloads off' };
    case 'address': return { where, what: `add address ${step.address}` };
    case 'neighbour': return { where, what: `set neighbour ${step.address}` };
    case 'route': return { where, what: `add route to ${step.to} by ${step.via}` };
    case 'qdisc': return { where, what: `set queue discipline ${[step.kind, ...step.words].join(' ')}` };
    case 'tc': return { where, what: `set queue discipline ${step.words.join(' ')}` };
    case 'class': return { where, what: `set class ${handleWord(step.classid)} ${[step.kind, ...step.words].join(' ')}` };
    case 'filter': return { where, what: `add filter ${[step.kind, ...step.words].join(' ')}` };
    case 'redirect': return { where, what: `redirect to ${step.to.device}` };
  }
}
const couldNot = (step: Step): string => {
  const { where, what } = describe(step);
  return `${where}: could not ${what}`;
};

function remedy(step: Step, code: string): string {
  if (code === 'EPERM' || code === 'EACCES') return 'run as root, or use --machine uml';
  if (code === 'ENOENT' || code === 'EOPNOTSUPP' || code === 'ENOSYS') {
    switch (step.do) {
      case 'qdisc': case 'class': {
        const since = qdiscs.get(step.kind)?.since;
        return `this kernel may lack ${step.kind} (CONFIG_NET_SCH_${step.kind.toUpperCase()}${since ? `, Linux ${since} and later` : ''}); use --machine uml${since ? ' with a newer kernel' : ', whose kernel has it'}, or another queue`;
      }
      case 'filter': return `this kernel may lack the classifier ${step.kind} (CONFIG_NET_CLS_${step.kind.toUpperCase()}); use --machine uml`;
      case 'redirect': return 'this kernel may lack the action mirred or the classifiers matchall and u32 (CONFIG_NET_ACT_MIRRED, NET_CLS_MATCHALL, NET_CLS_U32); use --machine uml';
      case 'link': return 'this kernel may lack veth (CONFIG_VETH); use --machine uml';
      case 'sysctl': return 'this kernel has no such sysctl, or not one of its own for each network namespace; take it out of the scenario';
      default: return 'use --machine uml';
    }
  }
  if (code === 'ENOMEM' || code === 'ENOBUFS') return 'too little memory: use fewer hosts or shorter queues';
  if (code === 'EEXIST') return 'something of this name is there already: run testbed clean';
  if (step.do === 'qdisc' || step.do === 'class') return 'check the parameters of the queue';
  if (step.do === 'sysctl') return 'check its value';
  return 'see `testbed plan FILE --format sh` for the same by hand';
}

/** A step failed: what, where, the kernel's words, how to mend it. */
export function stepError(step: Step, error: unknown): unknown {
  if (error instanceof NetlinkError || error instanceof SystemError) return new UserError(`${couldNot(step)}: ${error.message}; ${remedy(step, error.code)}`, 1, { cause: error });
  const code = (error as NodeJS.ErrnoException | null)?.code;
  if (step.do === 'sysctl' && typeof code === 'string') return new UserError(`${couldNot(step)}: ${code}; ${remedy(step, code)}`, 1, { cause: error });
  return error;
}

/** matchall is cheaper a packet; u32 is on more kernels. Found out once. */
let redirectKind: 'matchall' | 'u32' | undefined;
function redirectFilter(from: number, to: number, kind: 'matchall' | 'u32'): Request {
  return newFilter(from, ingressHandle, 1, protocols.all, 0, { kind, options: redirectOptions(kind, to) });
}
function chooseRedirect(socket: NetlinkSocket, step: Step & { do: 'redirect' }): void {
  socket.run([setQdisc(step.ifindex, TC_H_INGRESS, ingressHandle, { kind: 'ingress', options: Buffer.alloc(0) })]);
  try {
    socket.run([redirectFilter(step.ifindex, step.to.ifindex, 'matchall')]);
    redirectKind = 'matchall';
  } catch (error) {
    if (!(error instanceof NetlinkError) || error.code !== 'ENOENT') throw error;
    socket.run([redirectFilter(step.ifindex, step.to.ifindex, 'u32')]);
    redirectKind = 'u32';
  }
}

/** The requests of a step; several for a redirect. */
function requestsOf(step: Step): Request[] {
  switch (step.do) {
    case 'address': return [newAddress(step.ifindex, step.address)];
    case 'neighbour': return [newNeighbour(step.ifindex, step.address, step.mac)];
    case 'route': return [newRoute(step.ifindex, step.to, step.via)];
    case 'qdisc': return [setQdisc(step.ifindex, step.parent, step.handle, step)];
    case 'class': return [setClass(step.ifindex, step.parent, step.classid, step)];
    case 'filter': return [newFilter(step.ifindex, step.parent, step.priority, protocols[step.protocol], step.handle, step)];
    case 'redirect': return [setQdisc(step.ifindex, TC_H_INGRESS, ingressHandle, { kind: 'ingress', options: Buffer.alloc(0) }), redirectFilter(step.ifindex, step.to.ifindex, redirectKind ?? 'matchall')];
    default: return [];
  }
}

/** Requests with the step each belongs to. */
class Batch {
  private readonly requests: Request[] = [];
  private readonly steps: Step[] = [];
  add(step: Step, requests: readonly Request[]): void {
    for (const request of requests) {
      this.requests.push(request);
      this.steps.push(step);
    }
  }
  run(socket: NetlinkSocket): void {
    if (this.requests.length === 0) return;
    try {
      socket.run(this.requests);
    } catch (error) {
      throw error instanceof NetlinkError ? stepError(this.steps[error.index]!, error) : error;
    }
  }
}

const group = <K, V>(items: readonly V[], key: (item: V) => K): Map<K, V[]> => {
  const out = new Map<K, V[]>();
  for (const item of items) {
    const list = out.get(key(item));
    if (list === undefined) out.set(key(item), [item]); else list.push(item);
  }
  return out;
};

export const sysctlPath = (name: string): string => `/proc/sys/${name.replaceAll('.', '/')}`;
/** In the calling thread's namespace. */
function setSysctl(step: Step & { do: 'sysctl' }): void {
  try {
    writeFileSync(sysctlPath(step.name), step.value);
  } catch (error) {
    if (!isOffAnyway(step, error)) throw stepError(step, error);
  }
}
/** A kernel without IPv6 has no switch to turn it off with. */
export const isOffAnyway = ({ name, value }: { readonly name: string; readonly value: string }, error: unknown): boolean =>
  (error as NodeJS.ErrnoException | null)?.code === 'ENOENT' && value === '1' && /^net\.ipv6\.conf\.\w+\.disable_ipv6$/.test(name);

/** tc itself, for what only it can set. @param words after `qdisc add|change dev DEVICE parent P handle H` */
export function runTc(hosts: Hosts, verb: 'add' | 'change', step: Step & { do: 'tc' }): void {
  try {
    hosts.inside(step.node, () => execFileSync('tc', ['qdisc', verb, 'dev', step.device, 'parent', handleWord(step.parent), 'handle', handleWord(step.handle), ...step.words], { stdio: ['ignore', 'ignore', 'pipe'], encoding: 'utf8' }));
  } catch (error) {
    const { code, stderr } = error as { code?: unknown; stderr?: unknown };
    if (code === 'ENOENT') throw new UserError(`${couldNot(step)}: tc is not installed; install iproute2`, 1, { cause: error });
    throw new UserError(`${couldNot(step)}: tc says: ${String(stderr).trim().split('\n')[0]!}; check the queue's tc words (${step.field})`, 1, { cause: error });
  }
}

/** Makes the layout's network. @param sockets filled with a netlink socket a node, to be closed by the caller, also after an error. */
export function applyLayout(layout: Layout, hosts: Hosts, sockets: Map<string, NetlinkSocket>): void {
  const { steps } = layout;
  const namespaces = steps.flatMap((step) => (step.do === 'namespace' ? [step] : []));
  const firstLink = steps.findIndex((step) => step.do === 'link');
  const sysctlsOf = (from: number, to?: number) => group(steps.slice(from, to).flatMap((step) => (step.do === 'sysctl' ? [step] : [])), (step) => step.node);
  const [early, late] = firstLink < 0 ? [sysctlsOf(0), new Map<string, never[]>()] : [sysctlsOf(0, firstLink), sysctlsOf(firstLink)];
  hosts.create(namespaces, (node) => {
    sockets.set(node, NetlinkSocket.open());
    for (const step of early.get(node) ?? []) setSysctl(step);
  });
  const socketOf = (node: string): NetlinkSocket => {
    const socket = sockets.get(node);
    if (socket === undefined) throw new Error(`no node ${node}`);
    return socket;
  };

  const sixDevices = new Set(steps.flatMap((step) => (step.do === 'address' && step.address.includes(':') ? [`${step.node} ${step.device}`] : [])));
  const links = steps.flatMap((step) => (step.do === 'link' ? [step] : []));
  const peers = group(links, (step) => step.b.node);
  for (const [node, list] of group(links, (step) => step.a.node)) {
    const batch = new Batch();
    for (const step of list) {
      const silent = [step.a, step.b].some((end) => sixDevices.has(`${end.node} ${end.device}`));
      batch.add(step, [newVeth(step.a, step.b, hosts.namespaceFd(step.b.node), step.mtuBytes, linkGroup, silent)]);
    }
    batch.run(socketOf(node));
  }

  const rest = group(steps.filter((step) => step.do !== 'namespace' && step.do !== 'sysctl' && step.do !== 'link'), (step) => ('node' in step ? step.node : ''));
  for (const { node } of namespaces) {
    const socket = socketOf(node);
    const lateSysctls = late.get(node);
    if (lateSysctls !== undefined) hosts.inside(node, () => lateSysctls.forEach(setSysctl));
    const batch = new Batch();
    batch.add({ do: 'namespace', node, netns: '' }, [linkUp(1)]);
    for (const step of peers.get(node) ?? []) batch.add(step, [linkUp(step.b.ifindex)]);
    for (const step of rest.get(node) ?? []) {
      try {
        if (step.do === 'offloads') offloadsOff(socket.fd, step.device, step.checksums);
        else if (step.do === 'redirect' && redirectKind === undefined) chooseRedirect(socket, step);
        else if (step.do !== 'tc') batch.add(step, requestsOf(step));
      } catch (error) {
        throw stepError(step, error);
      }
    }
    batch.run(socket);
    for (const step of rest.get(node) ?? []) if (step.do === 'tc') runTc(hosts, 'add', step);
  }
}

const pause = new Int32Array(new SharedArrayBuffer(4));
/** Links are put to work by a kernel thread some time after they are up (link_watch.c); until then they drop what they are given. @throws UserError after 10 s */
export function awaitLinks(layout: Layout, sockets: ReadonlyMap<string, NetlinkSocket>): void {
  const waiting = group(layout.devices, (device) => device.node);
  for (const { node, device } of layout.devices) syncLink(sockets.get(node)!.fd, device);
  for (let waitedMs = 0; ; waitedMs += 20) {
    if (waitedMs > 0) Atomics.wait(pause, 0, 0, 20);
    for (const [node, devices] of waiting) {
      const links = new Map(sockets.get(node)!.ask(listLinks()).map(parseLink).map((link) => [link.ifindex, link]));
      if (devices.every(({ ifindex }) => links.get(ifindex)?.up)) waiting.delete(node);
    }
    if (waiting.size === 0) return;
    if (waitedMs > 10_000) throw new UserError(`links of ${[...waiting.keys()].join(', ')} did not come up within 10 s; the machine may be overloaded: try again, or use --machine uml`);
  }
}

/** All links go at once, from the nodes where many end; what is left goes with its namespaces. */
export function deleteLinks(nodes: Iterable<string>, sockets: ReadonlyMap<string, NetlinkSocket>): void {
  for (const node of nodes) {
    try {
      sockets.get(node)?.run([deleteLinkGroup(linkGroup)]);
    } catch (error) {
      // No device of ours there (any more): ENODEV.
      if (!(error instanceof NetlinkError)) throw error;
    }
  }
}
