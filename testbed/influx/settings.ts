/**
 * Which InfluxDB points go to: from the environment variables of the client's own examples (INFLUX_URL, INFLUX_TOKEN, INFLUX_ORG,
 * INFLUX_BUCKET; INFLUXDB_V2_… as other clients of InfluxDB take), else from `influx` in testbed.config.yaml. The token is a secret: it
 * leaves the environment when it is read, so that no child process inherits it, and `redact` takes it out of any text.
 */

import { type Config, configName, readConfig } from '../config/config.js';
import { UserError } from '../errors.js';

export interface InfluxSettings {
  /** Scheme, host, port and path, without a `/` at its end. */
  readonly url: string;
  readonly org: string;
  readonly bucket: string;
  /** null: the server asks for none. For InfluxDB 1.x `user:password`. */
  readonly token: string | null;
}

const prefixes = ['INFLUX_', 'INFLUXDB_V2_'] as const;

/**
 * @param environment the token is removed from it
 * @throws UserError (exit code 2) when no URL is set, or one that cannot be used
 */
export function influxSettings(environment: NodeJS.ProcessEnv = process.env, config?: Config): InfluxSettings {
  const variable = (name: string): string | undefined => prefixes.map((prefix) => environment[prefix + name]).find((value) => value !== undefined && value !== '');
  const configured = (config ?? readConfig()).influx ?? {};
  const token = variable('TOKEN') ?? configured.token ?? null;
  for (const prefix of prefixes) Reflect.deleteProperty(environment, `${prefix}TOKEN`);
  const named = variable('URL') ?? configured.url;
  if (named === undefined) {
    throw new UserError(`no InfluxDB to send to: set INFLUX_URL (and INFLUX_TOKEN, INFLUX_ORG, INFLUX_BUCKET), or \`influx: { url: "http://localhost:8086" }\` in ${configName}`, 2);
  }
  // Header values: anything else cannot be a token, and would be told by an error that repeats it.
  if (token !== null && !/^[\x21-\x7e]+$/.test(token)) throw new UserError('the InfluxDB token (INFLUX_TOKEN) has blanks or characters beyond ASCII: was it copied whole, and nothing but it?', 2);
  return { url: usable(named), org: variable('ORG') ?? configured.org ?? '', bucket: variable('BUCKET') ?? configured.bucket ?? 'testbed', token };
}

/** What is wrong is told without the text: it may hold a password. */
function usable(text: string): string {
  const expected = 'expected one like http://localhost:8086';
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw new UserError(`the InfluxDB URL (INFLUX_URL) is not a URL; ${expected}`, 2);
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') throw new UserError(`the InfluxDB URL (INFLUX_URL) begins with ${url.protocol}//; ${expected}`, 2);
  if (url.username !== '' || url.password !== '') throw new UserError('the InfluxDB URL (INFLUX_URL) holds a user or password, which would be shown in messages; give them as INFLUX_TOKEN=user:password', 2);
  if (url.search !== '' || url.hash !== '') throw new UserError(`the InfluxDB URL (INFLUX_URL) has a ? or # in it; ${expected}, and the bucket in INFLUX_BUCKET`, 2);
  return url.origin + url.pathname.replace(/\/+$/, '');
}

/** The text without the token, in any form in which a server or library may repeat it. */
export function redact(text: string, { token }: Pick<InfluxSettings, 'token'>): string {
  if (token === null) return text;
  const forms = [token, encodeURIComponent(token), Buffer.from(token).toString('base64')];
  return forms.reduce((rest, form) => rest.replaceAll(form, '[token]'), text);
}

/** For messages, and the key of what this server has acknowledged. */
export const targetOf = ({ url, org, bucket }: InfluxSettings): string => `${url} bucket ${bucket}${org === '' ? '' : ` of ${org}`}`;
