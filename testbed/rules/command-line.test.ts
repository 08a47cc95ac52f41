/** The command line as a user meets it: nothing starts before everything was checked, mistakes are told with their place and a fix, sets and lists. */

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { findProgram } from '../../kernel/project.js';
import { selectKernel } from '../../kernel/select.js';
import { needsUml, Place, runJson, skip } from '../testing/command.js';
import { dumbbellText } from '../testing/scenarios.js';

describe('the command', function () {
  this.timeout(240_000);
  let place: Place;
  beforeEach(() => { place = new Place(); });
  afterEach(() => place.remove());
  const file = (text = dumbbellText()): string => place.write('short.yaml', text);

  it('names an unknown command or option, and a missing file, without a stack', async () => {
    for (const [args, words] of [[['frobnicate'], /unknown command 'frobnicate'/], [['run', 'x.yaml', '--frob'], /unknown option '--frob'/], [['run'], /missing required argument 'file'/], [['run', 'none.yaml'], /none\.yaml/], [['show', 'none'], /no run/]] as const) {
      const { code, stderr } = await place.testbed(args);
      assert.ok(code === 1 || code === 2, `${args.join(' ')}: ${code}`);
      assert.match(stderr, words);
      assert.doesNotMatch(stderr, /^\s+at /m);
    }
  });

  describe("about Debian's ready kernel", () => {
    it('says how to get it where it is not there, and what it needs besides', async function () {
      const { kernel } = selectKernel('debian');
      const program = kernel === null ? null : findProgram('modprobe');
      if (program !== null && process.getuid?.() !== 0) skip(this, 'hiding modprobe needs root');
      const under = program === null ? [] : ['unshare', '--mount', 'sh', '-c', 'mount --bind "$1" "$2"; shift 2; exec "$@"', 'sh', place.write('not-a-program', ''), fs.realpathSync(program)];
      const advice = kernel === null ? /install.*user-mode-linux|no package brings/ : /install.*kmod/;
      const row = (await place.testbed(['kernel', 'list'], { under })).stdout.split('\n').find((line) => line.startsWith('uml:debian'));
      assert.match(row ?? '', advice);
      const machine = /– uml:debian[\s\S]*?(?=\n  [✓–] |\n\n)/.exec((await place.testbed(['doctor'], { under })).stdout)?.[0];
      assert.match(machine ?? '', advice);
      const { code, stderr } = await place.testbed(['run', file(), '--machine', 'uml:debian', '--out', 'out'], { under });
      assert.equal(code, 3, stderr);
      assert.match(stderr, advice);
    });
  });

  describe('before anything starts', () => {
    before(needsUml);
    const refused = async (more: readonly string[], exit: number, words: RegExp, under: readonly string[] = []): Promise<void> => {
      const { code, stderr } = await place.testbed(['run', file(), ...(more.includes('--machine') ? [] : ['--machine', 'uml']), '--out', 'out', ...more], { under });
      assert.match(stderr, words);
      assert.equal(code, exit, stderr);
      assert.equal(fs.existsSync(place.path('out')), false, 'no run folder');
      await place.assertNothingLeft();
    };
    it('finds a queue discipline the kernel lacks, and says where it is', () => refused(['--set', 'topology.links.BL.queue={ kind: raw, tc: [nonsense] }'], 3, /qdisc nonsense \(queue of BL\) in kernel/));
    it('finds a parameter that is none, with its line or setting and what there is', () => refused(['--set', 'topology.links.BL.queue={ kind: codel, tarjet: 5ms }'], 2, /topology\.links\.BL\.queue\.tarjet: unknown key "tarjet".*expected limit, target/));
    it('finds a congestion control the kernel lacks', () => refused(['--set', 'traffic.bulk.cc=nosuch'], 3, /congestion control nosuch \(traffic bulk\)/));
    it('finds a mistyped congestion control, with its place and what the kernel has', () => refused(['--set', 'traffic.bulk.cc=cubik'], 3, /--set traffic\.bulk\.cc=cubik: traffic\.bulk\.cc: congestion control cubik .*\n\s+→ did you mean "cubic"\? this kernel has cubic, reno, /));
    it('repeats what tc says to words only it can judge, with their place', async () => {
      const { code, stderr } = await place.testbed(['run', file(dumbbellText({ queue: '{ tc: codel limit banana }' })), '--machine', 'uml', '--out', 'out', '--no-report']);
      assert.equal(code, 1, stderr);
      assert.match(stderr, /could not set queue discipline codel limit banana: tc says: Illegal "limit"; .*\(.*short\.yaml:4: topology\.links\.BL\.queue\.tc\)/);
    });
    it('finds that iperf3 is not installed, and says how to install it', async function () {
      const iperf3 = findProgram('iperf3');
      if (iperf3 !== null && process.getuid?.() !== 0) skip(this, 'hiding iperf3 needs root');
      // A file that cannot be started lies over it, for this command alone.
      const hide = iperf3 === null ? [] : ['unshare', '--mount', 'sh', '-c', 'mount --bind "$1" "$2"; shift 2; exec "$@"', 'sh', place.write('not-a-program', ''), iperf3];
      await refused(['--set', 'traffic.bulk.tool=iperf3'], 3, /program iperf3 \(traffic bulk\)\n\s+→ .*iperf3/, hide);
    });
    it('finds a kernel that is not built, and says how to build it', () => refused(['--machine', 'uml:5.4'], 3, /UML kernel 5\.4[\s\S]*testbed kernel build 5\.4/));
    it('finds that the clock cannot be had', () => refused(['--machine', 'local', '--clock', 'virtual'], 3, /virtual time on the local kernel/));

    it('says what would run and starts nothing with --dry-run', async () => {
      const { code, stdout } = await place.testbed(['run', file(), '--machine', 'uml', '--dry-run', '--set', 'seeds=[1, 2]', '--out', 'out']);
      assert.equal(code, 0);
      assert.match(stdout, /2 runs[\s\S]*seed1[\s\S]*seed2[\s\S]*Nothing was started/);
      assert.equal(fs.existsSync(place.path('out')), false);
    });

    it('refuses a place for results that cannot be written, in a word, and does not hang where the file system plays tricks', async () => {
      place.write('plain-file', '');
      for (const out of ['plain-file/below', '/proc/nowhere']) {
        const { code, stderr } = await place.testbed(['run', file(), '--machine', 'uml', '--out', out], { boundMs: 30_000 });
        assert.equal(code, 1, stderr);
        assert.match(stderr, /no run folder can be made there.*--out DIR/);
      }
    });
  });

  describe('with a set of runs', () => {
    before(needsUml);
    it('makes a folder with one a run, a summary over seeds, and a page; list and show know it; a --set may be a YAML value', async () => {
      const ended = await place.testbed(['run', file(), '--machine', 'uml', '--set', 'seeds=[1, 2]', '--set', 'vary={ queue: [codel, pfifo] }', '--set', 'topology.links.BL.queue={ kind: codel }']);
      assert.equal(ended.code, 0, ended.stderr);
      const top = place.run();
      const names = fs.readdirSync(top, { withFileTypes: true }).filter((entry) => entry.isDirectory()).map(({ name }) => name).sort();
      assert.deepEqual(names, ['queue-codel-seed1', 'queue-codel-seed2', 'queue-pfifo-seed1', 'queue-pfifo-seed2']);
      const summary = fs.readFileSync(path.join(top, 'summary.json'), 'utf8');
      assert.match(summary, /"median"/);
      assert.ok(fs.existsSync(path.join(top, 'report.html')));
      assert.match((await place.testbed(['list'])).stdout, /short-/);
      for (const name of ['last', path.basename(top)]) assert.match((await place.testbed(['show', name])).stdout, /codel[\s\S]*pfifo/);
      assert.equal((await place.testbed(['show', 'last', '--json'])).stdout.trim(), JSON.stringify(JSON.parse(summary), null, 2));
    });

    it('goes on when one of them fails, says which, and does not count it', async () => {
      // A queue the kernel has, with an argument that only tc itself refuses.
      const ended = await place.testbed(['run', file(), '--machine', 'uml', '--no-report', '--set', 'vary={ queue: [codel, { kind: raw, tc: [codel, tarjet, 5ms] }] }']);
      assert.equal(ended.code, 1, ended.stderr);
      const top = place.run();
      const statuses = Object.fromEntries(fs.readdirSync(top, { withFileTypes: true }).filter((entry) => entry.isDirectory()).map(({ name }) => [name, runJson(path.join(top, name)).status]));
      assert.deepEqual(Object.values(statuses).sort(), ['complete', 'failed']);
      assert.match(ended.stderr, /failed.*tarjet/s);
      assert.ok(fs.existsSync(path.join(top, 'summary.json')));
    });
  });
});
