/** The machine `ssh://user@host[:port]`: a plan on another computer's own kernel, in real time. How: session.ts, loaded when it is used. */

import type { Plan } from '../../plan/plan.js';
import type { HostsKind, Machine, MachineInfo, Missing, RunOutcome, RunRequest } from '../machine.js';
import { needsOf } from '../needs.js';
import type { SshOptions } from './session.js';
import { formatTarget, type SshTarget } from './target.js';

export class Ssh implements Machine {
  readonly info: MachineInfo;
  /** Answers by what was asked for: the plans of a set mostly need the same. */
  readonly #checked = new Map<string, Promise<readonly Missing[]>>();

  constructor(readonly target: SshTarget, private readonly options: SshOptions = {}) {
    this.info = { name: formatTarget(target), kernel: null, clocks: ['real'], givenKernel: true };
  }

  async check(plan: Plan, clock: 'virtual' | 'real', hosts: HostsKind = 'netns'): Promise<readonly Missing[]> {
    if (clock === 'virtual') return [{ what: 'virtual time on a remote kernel', fix: '--machine uml here, or --clock real' }];
    const key = JSON.stringify([hosts, needsOf(plan)]);
    let answer = this.#checked.get(key);
    if (answer === undefined) this.#checked.set(key, answer = import('./session.js').then(({ checkRemote }) => checkRemote(this.target, plan, hosts)));
    return answer;
  }

  async run(request: RunRequest): Promise<RunOutcome> {
    if (request.clock === 'virtual') return { status: 'failed', error: 'a remote kernel has no virtual time: --machine uml here, or --clock real' };
    return (await import('./session.js')).runRemote(this.target, request, this.options);
  }
}
