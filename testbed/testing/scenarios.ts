/** Short scenarios for tests of the whole command: a dumbbell with one bottleneck, as YAML text. */

export interface DumbbellText {
  readonly name?: string;
  readonly queue?: string;
  readonly rate?: string;
  readonly pairs?: number;
  /** Empty: no delay, so no netem, as the local machine may need. */
  readonly rtt?: string;
  readonly cc?: string;
  readonly tool?: string;
  readonly traffic?: string;
  readonly probes?: string;
  readonly measure?: string;
  /** Further top-level lines. */
  readonly more?: string;
}

export function dumbbellText({
  name = 'short', queue = 'fq_codel', rate = '20mbit', pairs = 1, rtt = '20ms', cc = 'cubic', tool = 'builtin', measure = '{ warmup: 500ms, duration: 1500ms }',
  traffic = `{ bulk: { kind: bulk, from: S, to: D, ${rtt === '' ? '' : `rtt: ${rtt}, `}cc: ${cc}, tool: ${tool} } }`, probes = '', more = '',
}: DumbbellText = {}): string {
  return [
    `name: ${name}`,
    'topology:',
    '  routers: [R1, R2]',
    `  links: { BL: { between: [R1, R2], rate: { forward: ${rate}, reverse: none }, queue: ${queue} } }`,
    `  hosts: { S: { count: ${pairs}, at: R1 }, D: { count: ${pairs}, at: R2 } }`,
    `traffic: ${traffic}`,
    ...(probes === '' ? [] : [`probes: ${probes}`]),
    `measure: ${measure}`,
    ...(more === '' ? [] : [more]),
    '',
  ].join('\n');
}
