/** Runs in a guest with Linux 6.17 or later, for dualpi2.test.ts: what we set, and what the kernel then says of it. */

import { execFileSync } from 'node:child_process';
import { UserError } from '../errors.js';
import { parseAttributes } from '../linux/attributes.js';
import { NetlinkSocket } from '../linux/netlink.js';
import { deleteQdisc, handleOf, linkUp, listQdiscs, parseTc, setQdisc, TC_H_ROOT } from '../linux/rtnetlink.js';
import { parameterSets } from '../testing/queue-parameters.js';
import { dualpi2 } from './dualpi2.js';

execFileSync('ip', ['link', 'add', 't0', 'index', '500', 'type', 'veth', 'peer', 'name', 't1']);
const route = NetlinkSocket.open();
route.run([linkUp(500)]);
const values = (options: Buffer): [number, string][] => [...parseAttributes(options)].map(([type, payload]) => [type, payload.toString('hex')]);
/** TCA_OPTIONS, or null for a random pair of RTTs from which no usable alpha and beta follow. */
const encoded = (params: Parameters<typeof dualpi2.encode>[0]): Buffer | null => {
  try {
    return dualpi2.encode(params, { mtuBytes: 1500, rateBps: 20e6 });
  } catch (error) {
    if (error instanceof UserError) return null;
    throw error;
  }
};
console.log(JSON.stringify(parameterSets(dualpi2, 60, 3).flatMap((params) => {
  const options = encoded(params);
  if (options === null) return [];
  try {
    route.run([setQdisc(500, TC_H_ROOT, handleOf(1), { kind: 'dualpi2', options, nested: true })]);
  } catch (error) {
    return { params, sent: values(options), error: (error as Error).message };
  }
  const standing = route.ask(listQdiscs()).map(parseTc).find((one) => one.ifindex === 500 && one.kind === 'dualpi2');
  route.run([deleteQdisc(500, TC_H_ROOT, handleOf(1))]);
  return { params, sent: values(options), said: values(standing?.options ?? Buffer.alloc(0)) };
})));
