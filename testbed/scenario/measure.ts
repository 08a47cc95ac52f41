/** `measure`: the measurement window. Traffic starts at 0; figures count from `warmup` on, for `duration`. */

import { z } from 'zod';
import { zTime } from '../units.js';

const day = 86_400e9;
export const zMeasure = z.strictObject({
  warmup: zTime.refine((ns) => ns <= day, { error: 'expected a time of at most 24h, such as 10s' }).optional().meta({ description: 'Time before the window. Default: 10s.' }),
  duration: zTime.refine((ns) => ns >= 1e6 && ns <= day, { error: 'expected a time from 1ms to 24h, such as 60s' }).optional().meta({ description: 'Length of the window. Default: 60s.' }),
});
