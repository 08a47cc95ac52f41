/** A plan as a shell script that sets the network up by hand. */

import { UserError } from '../errors.js';
import type { Plan } from '../plan/plan.js';

/** @throws UserError: not written yet */
export function planToShell(_plan: Plan): string {
  throw new UserError('--format sh is not available in this build; use --format json');
}
