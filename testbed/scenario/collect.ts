/** `collect`: what is recorded beside the flows, and how often. */

import { z } from 'zod';
import { parseTime } from '../units.js';
import { word } from './quantity.js';

const words = 'an interval from 1ms to 1h such as 10ms, or none';
const zInterval = word((text) => {
  if (text.trim() === 'none') return null;
  const ns = parseTime(text);
  return ns !== undefined && ns >= 1e6 && ns <= 3600e9 ? ns : undefined;
}, words, /^\s*(?:none|\d*\.?\d+(?:[eE][+-]?\d+)?\s*[A-Za-z]+)\s*$/);

export const zCollect = z.strictObject({
  queue: zInterval.optional().meta({ description: 'Sampling interval of every bottleneck queue, or none (only at the edges of the window). Default: 10ms.' }),
  sockets: zInterval.optional().meta({ description: 'Sampling interval of every TCP socket, or none. Default: 100ms.' }),
  packets: z.union([z.boolean(), z.literal('auto', { error: 'expected true, false or auto' })]).optional().meta({ description: 'Record every packet through every bottleneck: true, false, or auto (in virtual time). Default: auto.' }),
});
