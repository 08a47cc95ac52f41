/** Applications of TCP flows by the plan's name of the tool whose flows they are. */

import type { PlanFlow } from '../../testbed/plan/plan.js';
import type { TcpModel } from '../tcp/sender.js';
import type { ApplicationKind } from './application.js';
import { builtin } from './builtin.js';
import { iperf3Tcp } from './iperf3-tcp.js';
import { netperf } from './netperf.js';

const applications: ReadonlyMap<PlanFlow['tool'], ApplicationKind> = new Map([
  ['builtin', builtin],
  ['iperf3', iperf3Tcp],
  ['flent', netperf],
]);

/** The classic model is for figures of simulators without applications: its flows write and are read without one's habits. */
export const applicationOf = ({ tool }: PlanFlow, model: TcpModel): ApplicationKind => (model.bufferLimits ? applications.get(tool) ?? netperf : builtin);
