/** The formats of `testbed export`; each file is loaded when it is used. */

import type { ExportFormat } from './format.js';

export const exportFormats: Readonly<Record<string, () => Promise<ExportFormat>>> = {
  csv: async () => (await import('./text-tables.js')).csv,
  json: async () => (await import('./text-tables.js')).json,
  parquet: async () => (await import('./parquet.js')).parquet,
  qlog: async () => (await import('./qlog.js')).qlog,
  pcapng: async () => (await import('./pcapng.js')).pcapng,
  influx: async () => (await import('./influx.js')).influx,
  flent: async () => (await import('./flent.js')).flent,
};
