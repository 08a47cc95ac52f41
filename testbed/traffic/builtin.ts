/** The built-in generator: one process for all flows of a machine, real kernel sockets in each host's namespace. */

import type { AgentContext, Traffic } from '../agent/context.js';
import { raiseOpenFiles } from '../linux/open-files.js';
import type { PlanFlow } from '../plan/plan.js';
import { FlowLog } from './flow-log.js';
import { TcpFlows } from './tcp-flows.js';
import { UdpFlows } from './udp-flows.js';

/** Descriptors besides flows' sockets: libraries, records, netlink, rings. */
const otherDescriptors = 1024;

export function builtin(context: AgentContext, flows: readonly PlanFlow[]): Traffic {
  const log = new FlowLog(context);
  const tcp = new TcpFlows(context, flows.filter(({ transport }) => transport === 'tcp'), log);
  const udp = new UdpFlows(context, flows.filter(({ transport }) => transport === 'udp'), log);
  return {
    name: 'builtin',
    start() {
      // Both ends and a listener a flow, if all were open at once.
      const wanted = otherDescriptors + 3 * flows.length;
      const allowed = raiseOpenFiles(wanted);
      if (allowed < wanted) {
        context.finding('warning', 'open-files', `this process may open ${allowed} files, and ${flows.length} flows may need ${wanted} at once; raise the hard limit (ulimit -Hn)`);
      }
      tcp.start();
      udp.start();
    },
    end() {
      tcp.end();
      udp.end();
    },
    finished: () => tcp.finished() && udp.finished(),
    async stop() {
      tcp.stop();
      udp.stop();
      log.close();
    },
  };
}
