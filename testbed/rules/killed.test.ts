/**
 * A run that is killed or interrupted, at any moment: what it recorded is readable and never counted as complete, nothing
 * of it lives on, and `testbed clean` brings the machine back exactly, touching nothing that is not ours.
 */

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { ingest } from '../records/ingest.js';
import { readRunJson } from '../records/run-json.js';
import { eventually, needsUml, Place, runJson, skip, type CommandOptions, type Started } from '../testing/command.js';
import { noPrivateHost, PrivateHost } from '../testing/private-host.js';
import { dumbbellText } from '../testing/scenarios.js';

/** Long: it is to be cut off. */
const long = { measure: '{ warmup: 1s, duration: 600s }', more: 'collect: { queue: 10ms }' };

const agentLines = (out: string): string => {
  const [run] = fs.existsSync(out) ? fs.readdirSync(out) : [];
  const file = run === undefined ? '' : path.join(out, run, 'raw', 'agent.jsonl');
  return fs.existsSync(file) ? fs.readFileSync(file, 'utf8') : '';
};

interface Moment { readonly name: string; reached(started: Started, out: string): boolean; readonly records: boolean }
const moments: readonly Moment[] = [
  { name: 'before the machine is up', reached: (_, out) => fs.existsSync(out) && fs.readdirSync(out).length > 0, records: false },
  { name: 'in set-up', reached: (_, out) => agentLines(out).includes('"setup"'), records: false },
  { name: 'in traffic', reached: (_, out) => Number([...agentLines(out).matchAll(/"phase":"traffic","tNs":(\d+)/g)].at(-1)?.[1] ?? 0) >= 3e9, records: true },
];

describe('a run', function () {
  this.timeout(240_000);

  describe('on uml', () => {
    before(needsUml);
    let place: Place;
    beforeEach(() => { place = new Place(); });
    afterEach(() => place.remove());

    const start = (options: CommandOptions = {}, text = dumbbellText(long)): Started =>
      place.start(['run', place.write('long.yaml', text), '--machine', 'uml', '--no-report', '--out', place.path('out')], options);

    for (const moment of moments) {
      it(`killed with -9 ${moment.name} leaves no process, and readable records that do not count`, async () => {
        const started = start();
        await eventually(moment.name, () => moment.reached(started, place.path('out')) || started.child.exitCode !== null);
        started.child.kill('SIGKILL');
        assert.equal((await started.ended).signal, 'SIGKILL', started.output());
        await eventually(() => `no process is left: ${JSON.stringify(place.processes())}`, () => place.processes().length === 0, 10_000);
        const run = place.run('out');
        assert.ok(readRunJson(run) === null || runJson(run).status === 'running', 'never complete');
        if (moment.records) {
          const { rows } = await ingest(run);
          assert.ok(rows['packets']! > 1000 && rows['queue']! > 50, JSON.stringify(rows));
        }
        const shown = await place.testbed(['show', run]);
        if (readRunJson(run) === null) assert.match(shown.stderr, /no run/); // killed before it wrote anything at all
        else assert.match(shown.stdout, /running|incomplete|nothing was recorded/i, shown.stderr);
        const listed = await place.testbed(['list', '--out', place.path('out')]);
        assert.equal(listed.code, 0, listed.stderr);
        assert.doesNotMatch(listed.stdout, /\bcomplete\b/);
        const cleaned = await place.testbed(['clean']);
        assert.equal(cleaned.code, 0, cleaned.stderr);
        await place.assertNothingLeft();
      });
    }

    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      for (const moment of moments) {
        it(`ended by ${signal} ${moment.name} is kept, marked incomplete, with exit code 130 and nothing left behind`, async () => {
          const started = start();
          await eventually(moment.name, () => moment.reached(started, place.path('out')) || started.child.exitCode !== null);
          started.child.kill(signal);
          const { code, stderr } = await started.ended;
          assert.equal(code, 130, stderr);
          const runs = place.runs('out');
          if (runs.length > 0) assert.equal(runJson(runs[0]!).status, 'incomplete');
          else assert.match(stderr, /Interrupted before anything was started/);
          if (moment.records) {
            const run = runs[0]!;
            assert.ok(runJson(run).counts['packets']! > 1000, JSON.stringify(runJson(run).counts));
            assert.ok(fs.existsSync(path.join(run, 'metrics.json')));
          }
          await place.assertNothingLeft();
        });
      }
    }

    it('ended by SIGINT in analysis is never counted as complete unless it is', async () => {
      const started = start({}, dumbbellText({ measure: '{ warmup: 1s, duration: 2s }' }));
      await eventually('the agent is done', () => agentLines(place.path('out')).includes('"done"') || started.child.exitCode !== null);
      started.child.kill('SIGINT');
      const { code } = await started.ended;
      const { status } = runJson(place.run('out'));
      assert.ok((code === 130 || code === 0) && (status === 'incomplete' || status === 'complete'), `${code} ${status}`);
      if (code === 130 && status === 'complete') assert.ok(fs.existsSync(path.join(place.run('out'), 'metrics.json')));
      await place.assertNothingLeft();
    });

    it('whose kernel is killed fails, saying so, and keeps its records', async () => {
      const started = start();
      await eventually('traffic', () => moments[2]!.reached(started, place.path('out')) || started.child.exitCode !== null);
      const kernel = place.processes().find(({ command }) => /time-travel=inf-cpu/.test(command));
      assert.ok(kernel, JSON.stringify(place.processes()));
      process.kill(kernel.pid, 'SIGKILL');
      const { code, stderr } = await started.ended;
      assert.equal(code, 1);
      assert.match(stderr, /the kernel was killed by SIGKILL \(at \d/);
      const run = place.run('out');
      assert.equal(runJson(run).status, 'failed');
      assert.ok(runJson(run).counts['packets']! > 1000);
      await place.assertNothingLeft();
    });
  });

  describe('on local', () => {
    let place: Place;
    let host: PrivateHost;
    before(function () {
      const reason = noPrivateHost();
      if (reason !== undefined) skip(this, reason);
    });
    beforeEach(async () => {
      place = new Place();
      host = await PrivateHost.create();
      // Not ours, though it looks much like it: it must survive everything.
      host.run('ip', 'netns', 'add', 'abcd1234-R1');
      host.run('ip', 'link', 'add', 'bystander', 'type', 'veth', 'peer', 'name', 'bystander2');
      host.run('tc', 'qdisc', 'add', 'dev', 'bystander', 'root', 'pfifo', 'limit', '7');
    });
    afterEach(() => {
      host.end();
      place.remove();
    });
    const start = (tool = 'builtin'): Started =>
      place.start(['run', place.write('long.yaml', dumbbellText({ ...long, queue: 'pfifo', rate: '5mbit', rtt: '', tool })), '--machine', 'local', '--no-report', '--out', place.path('out')], { under: host.under });
    /** The real process behind nsenter and its fork. */
    const processOf = (pattern: RegExp): number => {
      const found = place.processes().find(({ command }) => pattern.test(command) && !command.startsWith('nsenter'));
      assert.ok(found, `${pattern}: ${JSON.stringify(place.processes())}`);
      return found.pid;
    };
    const orchestrator = /testbed\.cjs run/;
    const agent = /^\S*node \S*agent\.mjs/;

    for (const [who, pattern] of [['orchestrator', orchestrator], ['agent', agent]] as const) {
      for (const moment of moments.slice(who === 'agent' ? 1 : 0)) {
        it(`whose ${who} is killed with -9 ${moment.name} keeps its records, and clean brings the machine back exactly`, async () => {
          const before = host.state();
          const started = start(moment.records ? 'iperf3' : 'builtin');
          await eventually(moment.name, () => moment.reached(started, place.path('out')) || started.child.exitCode !== null);
          process.kill(processOf(pattern), 'SIGKILL');
          const { code, stderr } = await started.ended;
          assert.notEqual(code, 0);
          const run = place.run('out');
          if (who === 'agent') {
            assert.match(stderr, /killed by SIGKILL/);
            assert.equal(runJson(run).status, 'failed');
          } else {
            assert.ok(readRunJson(run) === null || runJson(run).status === 'running');
            // The agent sees that its parent died, takes down what it made and ends.
            await eventually(() => `the agent ends by itself: ${JSON.stringify(place.processes())}`, () => !place.processes().some(({ command }) => agent.test(command)), 20_000);
          }
          if (moment.records) assert.ok((await ingest(run)).rows['queue']! > 50);
          if (readRunJson(run) !== null) assert.equal((await place.testbed(['show', run], { under: host.under })).code, 0);
          const cleaned = await place.testbed(['clean'], { under: host.under });
          assert.equal(cleaned.code, 0, cleaned.stderr);
          assert.deepEqual(withoutJournalFolder(host.state()), withoutJournalFolder(before));
          assert.match((await place.testbed(['clean'], { under: host.under })).stdout, /nothing to clean/);
        });
      }
    }

    it('that is ended by SIGINT in traffic removes everything itself', async () => {
      const before = host.state();
      const started = start();
      await eventually('traffic', () => moments[2]!.reached(started, place.path('out')) || started.child.exitCode !== null);
      process.kill(processOf(orchestrator), 'SIGINT');
      const { code, stderr } = await started.ended;
      assert.equal(code, 130, stderr);
      assert.equal(runJson(place.run('out')).status, 'incomplete');
      assert.deepEqual(withoutJournalFolder(host.state()), withoutJournalFolder(before));
    });

    describe('where nobody has used ip netns before', () => {
      beforeEach(async () => {
        host.end();
        host = await PrivateHost.create();
      });
      const goOn = async (): Promise<Started> => {
        const started = start();
        await eventually('traffic', () => moments[2]!.reached(started, place.path('out')) || started.child.exitCode !== null);
        return started;
      };

      for (const [how, pattern, signal] of [['is ended by SIGINT', orchestrator, 'SIGINT'], ['has its agent killed with -9, after clean', agent, 'SIGKILL']] as const) {
        it(`that ${how} leaves the machine as it was`, async () => {
          const before = host.state();
          const started = await goOn();
          process.kill(processOf(pattern), signal);
          assert.notEqual((await started.ended).code, 0);
          if (signal === 'SIGKILL') assert.equal((await place.testbed(['clean'], { under: host.under })).code, 0);
          assert.deepEqual(withoutJournalFolder(host.state()), withoutJournalFolder(before));
        });

        it(`that ${how} removes all that is its own when somebody does in its middle`, async () => {
          const started = await goOn();
          host.run('ip', 'netns', 'add', 'other');
          process.kill(processOf(pattern), signal);
          const { code, stderr } = await started.ended;
          assert.equal(code, signal === 'SIGINT' ? 130 : 1, stderr);
          const { stdout } = await place.testbed(['clean'], { under: host.under });
          assert.doesNotMatch(stdout, /could not/);
          assert.deepEqual(host.state().namespaces, ['other']);
          host.run('ip', 'netns', 'exec', 'other', 'true');
          host.run('ip', 'netns', 'delete', 'other');
          assert.deepEqual(host.state().namespaces, []);
        });
      }
    });

    it('leaves the machine as it was when it goes to its end, and clean leaves a run alone that is going', async () => {
      const before = host.state();
      const started = start();
      await eventually('traffic', () => moments[2]!.reached(started, place.path('out')) || started.child.exitCode !== null);
      const cleaned = await place.testbed(['clean'], { under: host.under });
      assert.match(cleaned.stdout, /left alone: run \w{8}, still going/);
      assert.equal(started.child.exitCode, null);
      process.kill(processOf(orchestrator), 'SIGINT');
      assert.equal((await started.ended).code, 130);
      const short = await place.testbed(['run', place.write('short.yaml', dumbbellText({ queue: 'pfifo', rate: '5mbit', rtt: '' })), '--machine', 'local', '--no-report', '--out', place.path('short')], { under: host.under });
      assert.ok(short.code === 0 || /too loaded/.test(short.stderr), short.stderr);
      assert.deepEqual(withoutJournalFolder(host.state()), withoutJournalFolder(before));
    });
  });
});

/** The folder of journals itself may stay: it holds nothing. */
function withoutJournalFolder<T extends { readonly files: readonly string[] }>(state: T): T {
  return { ...state, files: state.files.filter((file) => file !== '/run/testbed') };
}
