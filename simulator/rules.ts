/** What the simulator makes of a scenario's queues and congestion controls, for the loader. */

import { aqms } from '../aqm/registry.js';
import { makeAqm, tryQueue, type EngineRules } from '../testbed/scenario/engine-rules.js';
import { congestionControls } from './tcp/controls.js';

export const simulatorRules: EngineRules = {
  congestionControls: [...congestionControls.keys()],
  queueProblem(queue, place) {
    if (queue.kind === 'raw') return { key: 'tc', message: `the simulator has no tc; expected one of ${[...aqms.keys()].join(', ')}` };
    const aqm = aqms.get(queue.kind);
    if (aqm === undefined) return { key: null, message: `the simulator has no queue discipline ${JSON.stringify(queue.kind)}; expected ${[...aqms.keys()].join(', ')}` };
    return tryQueue(queue.params, (params) => makeAqm(aqm, params, place));
  },
};
