/**
 * A run's points to an InfluxDB server: everything, or what `--influx` could not send while it ran. What the server has
 * acknowledged is known (influx.json in the run's folder) and not sent again. Waits for a server that is busy or away for a minute.
 */

import { UserError } from '../errors.js';
import { RunPoints } from '../influx/run-points.js';
import { liveTiming, Sender } from '../influx/sender.js';
import { influxSettings, targetOf } from '../influx/settings.js';
import type { ExportFormat } from './format.js';

const timing = { ...liveTiming, patienceMs: 60_000, closeMs: Infinity };

export const influx: ExportFormat = {
  summary: 'points to an InfluxDB server (INFLUX_URL, INFLUX_TOKEN, INFLUX_ORG, INFLUX_BUCKET)', tables: [], files: 'none',
  async write({ runId, runDir, run, signal, onWarning }) {
    // The token is taken out of the environment at the first run of a set.
    const settings = known ??= influxSettings();
    const points = new RunPoints(runDir, { target: targetOf(settings) });
    points.ended = run.status !== 'running';
    const before = points.sent;
    const sender = new Sender(settings, (message, final) => { if (!final) onWarning(`${message}; trying for a minute`); }, timing);
    sender.add(points);
    sender.close();
    const stop = (): void => { sender.stop(); };
    signal.addEventListener('abort', stop);
    try {
      const { pending, trouble } = await sender.work();
      signal.throwIfAborted();
      if (pending > 0) throw new UserError(`${runId}: ${pending} points are not sent. ${targetOf(settings)}: ${trouble ?? 'unknown'}. The same command goes on where it ended`);
    } finally {
      signal.removeEventListener('abort', stop);
    }
    return [`${runId}: ${points.sent - before} points sent to ${targetOf(settings)}${before > 0 ? `, which had ${before} already` : ''}`];
  },
};
let known: ReturnType<typeof influxSettings> | undefined;
