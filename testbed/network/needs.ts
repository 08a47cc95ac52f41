/** Which features of the kernel a plan's network uses, and a probe that tries them on this one before anything is made. */

import type { Missing } from '../machines/machine.js';
import { attributeU32 } from '../linux/attributes.js';
import { close, open, setns, SystemError, unshare } from '../linux/libc.js';
import { NetlinkError, NetlinkSocket } from '../linux/netlink.js';
import { deleteQdisc, handleOf, newFilter, newVeth, setQdisc, TC_H_INGRESS, TC_H_ROOT } from '../linux/rtnetlink.js';
import type { Plan } from '../plan/plan.js';
import { layoutOf, redirectOptions } from './steps.js';

export interface Need {
  readonly type: 'namespaces' | 'link' | 'qdisc' | 'classifier' | 'redirect';
  /** Kernel's name: `veth`, `fq_codel`, `u32`. */
  readonly name: string;
}

/** Without repeats. @throws UserError for queues that cannot be */
export function needsOf(plan: Plan): readonly Need[] {
  const out = new Map<string, Need>();
  const add = (type: Need['type'], name: string): void => { out.set(`${type} ${name}`, { type, name }); };
  add('namespaces', 'net');
  for (const step of layoutOf(plan).steps) {
    if (step.do === 'link') add('link', 'veth');
    else if (step.do === 'qdisc') add('qdisc', step.kind);
    else if (step.do === 'tc') add('qdisc', step.words[0] ?? '');
    else if (step.do === 'filter') add('classifier', step.kind);
    else if (step.do === 'redirect') add('redirect', 'mirred');
  }
  return [...out.values()];
}

/** Kernel configuration that gives it. */
export const configOf = (need: Need): string => need.type === 'namespaces' ? 'CONFIG_NET_NS' : need.type === 'link' ? 'CONFIG_VETH'
  : need.type === 'classifier' ? `CONFIG_NET_CLS_${need.name.toUpperCase()}`
  : need.type === 'redirect' ? 'CONFIG_NET_SCH_INGRESS, NET_ACT_MIRRED and NET_CLS_MATCHALL or NET_CLS_U32'
  // The fifos come with the scheduler itself.
  : ['pfifo', 'bfifo', 'pfifo_fast'].includes(need.name) ? 'CONFIG_NET_SCHED' : `CONFIG_NET_SCH_${need.name.toUpperCase()}`;

const unknown = (error: unknown): boolean => error instanceof NetlinkError && (error.code === 'ENOENT' || error.code === 'EOPNOTSUPP');

/** Tries each on this kernel, in a network namespace that vanishes again. Needs the rights a run needs. */
export function missingHere(needs: readonly Need[]): readonly Missing[] {
  const home = open('/proc/thread-self/ns/net', 0o2000000);
  const root = 'use --machine uml, or a kernel with it';
  try {
    try {
      unshare(0x40000000 /* CLONE_NEWNET */);
    } catch (error) {
      if (!(error instanceof SystemError)) throw error;
      return [{ what: `network namespaces (${error.message})`, fix: error.code === 'EPERM' ? 'run as root, or use --machine uml' : root }];
    }
    const namespace = open('/proc/thread-self/ns/net', 0o2000000);
    const socket = NetlinkSocket.open();
    const out: Missing[] = [];
    const [one, two] = [100, 101];
    const lacks = (need: Need, what: string): void => { out.push({ what, fix: `use --machine uml, or a kernel with ${configOf(need)}` }); };
    /** The kernel looks for the kind before it reads the options: whatever else it says, it has it. */
    const has = (call: () => void): boolean => {
      try {
        call();
      } catch (error) {
        if (!(error instanceof NetlinkError)) throw error;
        return !unknown(error);
      }
      return true;
    };
    try {
      const veth = has(() => socket.run([newVeth({ device: 't0', ifindex: one, mac: '02:00:00:00:00:01' }, { device: 't1', ifindex: two, mac: '02:00:00:00:00:02' }, namespace, 1500, 0, false)]));
      if (!veth) {
        for (const need of needs) if (need.type === 'link') lacks(need, 'virtual Ethernet pairs (veth)');
        return out;
      }
      for (const need of needs) {
        if (need.type === 'qdisc') {
          // Empty options: some kinds are made by it, some refuse them; the device's root is free again for the next.
          if (!has(() => socket.run([setQdisc(one, TC_H_ROOT, handleOf(1), { kind: need.name, options: Buffer.alloc(0) })]))) lacks(need, `the queue discipline ${need.name}`);
          has(() => socket.run([deleteQdisc(one, TC_H_ROOT, handleOf(1))]));
        } else if (need.type === 'classifier') {
          has(() => socket.run([setQdisc(one, TC_H_INGRESS, handleOf(0xffff), { kind: 'ingress', options: Buffer.alloc(0) })]));
          if (!has(() => socket.run([newFilter(one, handleOf(0xffff), 1, 3, 0, { kind: need.name, options: attributeU32(1, 0) })]))) lacks(need, `the traffic classifier ${need.name}`);
        } else if (need.type === 'redirect') {
          has(() => socket.run([setQdisc(two, TC_H_INGRESS, handleOf(0xffff), { kind: 'ingress', options: Buffer.alloc(0) })]));
          if (!(['matchall', 'u32'] as const).some((kind, index) => has(() => socket.run([newFilter(two, handleOf(0xffff), index + 1, 3, 0, { kind, options: redirectOptions(kind, one) })])))) lacks(need, 'redirecting packets between devices (mirred)');
        }
      }
      return out;
    } finally {
      socket.close();
      close(namespace);
    }
  } finally {
    setns(home, 0x40000000);
    close(home);
  }
}
