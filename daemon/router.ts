/**
 * The daemon on a router of its own right: packets that come in by one device and would go out by another are led through it, by policy
 * routing (ip-rule(8)) into a TUN device (tun-port.ts).
 *
 *     ip link set OUT group G
 *     ip rule add pref 32764 iif IN lookup main suppress_ifgroup G     what does not go out by OUT goes as ever
 *     ip rule add pref 32765 iif IN lookup T                           what does, goes to the daemon,
 *     ip route add default dev TUN table T                             as long as it lives
 *
 * TUN and its route vanish with the daemon's process, however it ends; T is then empty, and packets fall through to main, which sends
 * them out by OUT as before. So a dead daemon never leaves the router without a route. What stays until `restore`, or `testbed clean` after a
 * crash, does nothing by itself: two rules a direction and address family, OUT's group, and where reverse-path filtering is strict on OUT, that it is
 * loose.
 */

import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import { UserError } from '../testbed/errors.js';
import type { Journal, JournalEntry } from '../testbed/journal/journal.js';
import { networkNamespaceOf } from '../testbed/journal/processes.js';

/** Just before the main table's own rule (32766), so that the user's own rules come first as ever. */
const [preferMain, preferDaemon] = [32764, 32765] as const;
/** Device groups of ours, by direction. */
const groups = [0x7464, 0x7463] as const;

export interface Device { readonly name: string; readonly ifindex: number; readonly mtuBytes: number; readonly group: number }

/** @throws UserError with ip's own words */
function ip(what: string, ...words: readonly string[]): string {
  try {
    return execFileSync('ip', words, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  } catch (error) {
    const { code, stderr } = error as { code?: unknown; stderr?: unknown };
    if (code === 'ENOENT') throw new UserError('the program ip is not installed; install iproute2', 3, { cause: error });
    const said = String(stderr).trim();
    throw new UserError(`cannot ${what}: ip says: ${said}${/not permitted/.test(said) ? '; run as root' : /exists/.test(said) ? '; is another testbed daemon running there? If one crashed: testbed clean' : ''}`, 3, { cause: error });
  }
}

interface LinkJson { readonly ifname: string; readonly ifindex: number; readonly mtu: number; readonly group?: string; readonly flags?: readonly string[] }
const links = (): readonly LinkJson[] => JSON.parse(ip('list the devices', '-N', '-j', 'link', 'show')) as LinkJson[];

/** @throws UserError when there is none of that name, or it is down */
export function findDevice(name: string, option: string): Device {
  const all = links();
  const link = all.find(({ ifname }) => ifname === name);
  if (link === undefined) throw new UserError(`${option} ${name}: there is no such network device; there are ${all.map(({ ifname }) => ifname).join(', ')}`, 2);
  if (!link.flags?.includes('UP')) throw new UserError(`${option} ${name}: the device is down; ip link set ${name} up`, 2);
  return { name, ifindex: link.ifindex, mtuBytes: link.mtu, group: Number(link.group ?? 0) };
}

/** IPv6 counts where this host forwards it. */
const forwards = (family: 4 | 6, device: string): boolean => {
  try {
    return fs.readFileSync(`/proc/sys/net/ipv${family}/conf/${device}/forwarding`, 'latin1').trim() === '1';
  } catch {
    return false;
  }
};

/** @throws UserError when this host forwards nothing that comes in by the device */
export function familiesForwarded(device: string): readonly (4 | 6)[] {
  const families = ([4, 6] as const).filter((family) => forwards(family, device));
  if (families.length === 0) throw new UserError(`this host does not forward what comes in by ${device}; if it is to be a router: sysctl -w net.ipv4.ip_forward=1 (or net.ipv6.conf.all.forwarding=1)`, 2);
  return families;
}

export interface Path { readonly in: Device; readonly out: Device; readonly tun: string; readonly families: readonly (4 | 6)[] }

/** Routes packets through the daemon; undone by `restore`. */
export class Router {
  /** Journal id and how to undo, the newest last. */
  private readonly done: { readonly id: number; readonly undo: () => void }[] = [];

  constructor(private readonly journal: Journal) {}

  private step(entry: JournalEntry, make: () => void, undo: () => void): void {
    const [id] = this.journal.add(entry);
    try {
      make();
    } catch (error) {
      this.journal.removed(id!);
      throw error;
    }
    this.done.push({ id: id!, undo });
  }

  /** @throws UserError; what was set up until then is still there for `restore` */
  lead(path: Path, index: 0 | 1): void {
    const netns = networkNamespaceOf(process.pid) ?? '';
    const { tun, out } = path;
    // A table of this process's own.
    const table = String(0x74650000 + ((process.pid * 2 + index) % 0x10000));
    // It takes packets back whose senders are not behind it, and passes them on.
    const set = (family: 4 | 6, name: string, value: string): void => fs.writeFileSync(`/proc/sys/net/ipv${family}/conf/${tun}/${name}`, value);
    // Without an address of its own the kernel refuses those packets where rp_filter is on (fib_frontend.c __fib_validate_source): IPv4's dummy address, RFC 7600.
    if (path.families.includes(4)) ip(`give ${tun} an address`, 'addr', 'add', '192.0.0.8/32', 'dev', tun);
    if (path.families.includes(4)) for (const [name, value] of [['rp_filter', '2'], ['forwarding', '1'], ['send_redirects', '0']] as const) set(4, name, value);
    if (path.families.includes(6)) for (const [name, value] of [['accept_ra', '0'], ['addr_gen_mode', '1']] as const) set(6, name, value);
    const before = out.group;
    // Strict reverse-path filtering asks by which way a packet that came in by OUT would be answered, and finds the daemon: loose, it asks whether there is one.
    const strict = ['all', out.name].map((name) => `/proc/sys/net/ipv4/conf/${name}/rp_filter`).map((file) => (fs.existsSync(file) ? fs.readFileSync(file, 'latin1').trim() : '0'));
    if (path.families.includes(4) && strict.includes('1') && !strict.includes('2')) {
      const file = `/proc/sys/net/ipv4/conf/${out.name}/rp_filter`;
      this.step({ kind: 'sysctl', path: file, before: strict[1]!, ours: '2', netns }, () => { fs.writeFileSync(file, '2'); }, () => { if (fs.existsSync(file)) fs.writeFileSync(file, strict[1]!); });
    }
    const usedGroup = before === 0 ? groups[index] : before;
    if (before === 0) {
      this.step({ kind: 'device-group', device: out.name, before, ours: usedGroup, netns },
        () => { ip(`set the group of ${out.name}`, 'link', 'set', 'dev', out.name, 'group', String(usedGroup)); },
        // A device that was taken away meanwhile has nothing to be set back.
        () => { if (fs.existsSync(`/proc/sys/net/ipv4/conf/${out.name}`)) ip(`set back the group of ${out.name}`, 'link', 'set', 'dev', out.name, 'group', String(before)); });
    } else {
      const others = links().filter((link) => link.ifname !== out.name && Number(link.group) === before);
      if (others.length > 0) throw new UserError(`${out.name} is in device group ${before} together with ${others.map(({ ifname }) => ifname).join(', ')}; the daemon tells packets apart by a group with that one device in it: ip link set ${out.name} group NUMBER`, 2);
    }
    for (const family of path.families) {
      ip(`route into ${tun}`, `-${family}`, 'route', 'add', 'default', 'dev', tun, 'table', table);
      // In this order: a daemon's rule alone would take what goes elsewhere, too.
      const rules = [
        ['pref', String(preferMain), 'iif', path.in.name, 'lookup', 'main', 'suppress_ifgroup', String(usedGroup)],
        ['pref', String(preferDaemon), 'iif', path.in.name, 'lookup', table],
      ];
      for (const words of rules) {
        this.step({ kind: 'rule', family, words, netns },
          () => { ip('add a routing rule', `-${family}`, 'rule', 'add', ...words); },
          () => { ip('remove a routing rule', `-${family}`, 'rule', 'del', ...words); });
      }
    }
  }

  /** Everything as it was. @returns what could not be undone */
  restore(): readonly string[] {
    const failed: string[] = [];
    for (const { id, undo } of this.done.reverse()) {
      try {
        undo();
        this.journal.removed(id);
      } catch (error) {
        failed.push(error instanceof Error ? error.message : String(error));
      }
    }
    this.done.length = 0;
    return failed;
  }
}
