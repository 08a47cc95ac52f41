/**
 * flent's own definition of a test, asked of flent itself: its tests are Python files (`<test>.conf`) that flent
 * executes with its settings, so only flent knows which streams and pings come of a test, its parameters and its hosts.
 * Here flent is given a definition of ours that includes the one asked for and writes down what came of it.
 *
 * A run gives flent the like (`definitionForRun`): the test, with the ports and the congestion control of the plan.
 */

import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { UserError } from '../errors.js';

export interface DefinitionRequest {
  readonly test: string;
  readonly ip: 4 | 6;
  /** Addresses of flent's hosts (`-H`), in order. */
  readonly hosts: readonly string[];
  readonly lengthSeconds: number;
  readonly delaySeconds: number;
  readonly stepSeconds: number;
  readonly parameters: Readonly<Record<string, string>>;
}

/** A series that flent measures, as its definition has it; what the definition leaves out is null. */
export interface DefinedSeries {
  readonly name: string;
  /** flent's kind of program: `netperf_demo`, `ping`, `udp_rtt`, `voip`, `iperf_csv`, … */
  readonly runner: string;
  /** netperf's test: `TCP_STREAM`, `TCP_MAERTS`. */
  readonly test: string | null;
  readonly host: string | null;
  /** s from the start of the test, and s from there. */
  readonly delay: number;
  readonly length: number | null;
  readonly interval: number | null;
  readonly marking: string | null;
  readonly cc: string | null;
  /** netperf: bytes to send instead of a length. */
  readonly bytes: number | null;
  readonly udp: boolean;
  /** First word of the command of a series that has one. */
  readonly command: string | null;
}

export type Definition =
  | { readonly found: true; readonly totalSeconds: number; readonly series: readonly DefinedSeries[] }
  /** `error`: what flent says is wrong with the test as asked; null: it has no such test. */
  | { readonly found: false; readonly tests: readonly string[]; readonly error: string | null };

/** Series of which flent makes others (`apply_to`) or places for parts of another's result. */
const computed = "('average', 'sum', 'diff_min', 'fairness', 'null', 'smooth_average')";

const definitionForReading = `
import json, os
from flent.testenv import TEST_PATH
_ask = json.loads(os.environ['TESTBED_FLENT'])
_answer = {'tests': sorted(n[:-5] for n in os.listdir(TEST_PATH) if n.endswith('.conf')), 'error': None, 'series': None}
if _ask['test'] in _answer['tests']:
    # flent first loads a test only to know its description, and then accepts anything.
    get_test_parameter.__self__.informational = False
    try:
        include(_ask['test'] + '.conf')
        _text = lambda v: None if v is None or v == '' else str(v[0] if isinstance(v, list) and v else v)
        _number = lambda v: v if isinstance(v, (int, float)) and not isinstance(v, bool) else None
        _answer['total'] = TOTAL_LENGTH
        _answer['series'] = [{
            'name': k, 'runner': v.get('runner') or 'process', 'test': _text(v.get('test')), 'host': _text(v.get('host')),
            'delay': _number(v.get('delay')) or 0, 'length': _number(v.get('length')), 'interval': _number(v.get('interval')),
            'marking': _text(v.get('marking')), 'cc': _text(v.get('cong_control')), 'bytes': _number(v.get('bytes')),
            'udp': bool(v.get('udp')), 'command': (v.get('command') or '').split(' ')[0] or None,
        } for k, v in DATA_SETS.items() if v.get('runner') not in ${computed}]
    except Exception as e:
        _answer['error'] = str(e)
with open(os.environ['TESTBED_FLENT_ANSWER'], 'w') as _file:
    json.dump(_answer, _file)
os._exit(0)
`;

/** Read by a flent that is given TESTBED_FLENT: `{ test, series: { NAME: changes } }`. */
export const definitionForRun = `import json, os
_ask = json.loads(os.environ['TESTBED_FLENT'])
include(_ask['test'] + '.conf')
# flent loads a test twice: for its description by this file's path, and to run it. The data file must have the test's own name.
if not get_test_parameter.__self__.informational:
    NAME = _ask['test']
    for _name, _change in _ask['series'].items():
        DATA_SETS[_name].update(_change)
`;

/** flent's words for a test, without its name; the same for reading and for running it. */
export function flentOptions(request: DefinitionRequest): string[] {
  return [
    // ~/.flentrc would change the test with the user who runs it.
    '-r', '/dev/null', `-${request.ip}`, '-l', String(request.lengthSeconds), '-d', String(request.delaySeconds), '-s', String(request.stepSeconds),
    ...request.hosts.flatMap((host) => ['-H', host]),
    ...Object.entries(request.parameters).flatMap(([key, value]) => ['--test-parameter', `${key}=${value}`]),
  ];
}

const known = new Map<string, Definition>();

interface Answer { readonly tests: readonly string[]; readonly error: string | null; readonly total?: number; readonly series: readonly DefinedSeries[] | null }

/**
 * Asked once for equal requests. Takes about a second.
 * @throws UserError (exit code 3) when flent is not installed here or cannot be started
 */
export function readDefinition(request: DefinitionRequest): Definition {
  const key = JSON.stringify(request);
  const before = known.get(key);
  if (before !== undefined) return before;
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'testbed-flent-'));
  try {
    fs.writeFileSync(path.join(folder, 'definition.conf'), definitionForReading);
    const answerFile = path.join(folder, 'answer.json');
    try {
      execFileSync('flent', [path.join(folder, 'definition'), ...flentOptions(request)], {
        cwd: folder, timeout: 60_000, stdio: ['ignore', 'pipe', 'pipe'],
        env: { ...process.env, TESTBED_FLENT: JSON.stringify({ test: request.test }), TESTBED_FLENT_ANSWER: answerFile },
      });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') {
        throw new UserError('flent is not installed here, and its own definition of a test says which streams it has: apt-get install flent (Debian, Ubuntu), dnf install flent (Fedora) or pip install flent', 3);
      }
      if (!fs.existsSync(answerFile)) throw new UserError(`flent could not be asked for its test ${request.test}: ${lastLine((error as { stderr?: Buffer }).stderr?.toString() ?? '') || (error as Error).message}`, 3);
    }
    const answer = fs.existsSync(answerFile) ? JSON.parse(fs.readFileSync(answerFile, 'utf8')) as Answer : null;
    if (answer === null) throw new UserError(`flent could not be asked for its test ${request.test}: it wrote no answer`, 3);
    const definition: Definition = answer.series !== null && answer.error === null
      ? { found: true, totalSeconds: answer.total!, series: answer.series }
      : { found: false, tests: answer.tests, error: answer.error };
    known.set(key, definition);
    return definition;
  } finally {
    fs.rmSync(folder, { recursive: true, force: true });
  }
}

const lastLine = (text: string): string => text.trim().split('\n').at(-1) ?? '';
