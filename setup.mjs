// Makes this checkout ready to run: system packages, npm packages, the compiled program, a UML kernel. Plain
// JavaScript without dependencies, since it runs before anything is installed. Each step is skipped when it is
// done; what it may not do (no root, another distribution) it names, and does the rest.
//
//   node setup.mjs             exit code 1 when something is still missing at the end
//   node setup.mjs --go-on     exit code 0 then too, unless the program itself could not be built (npm start, npm test)
//   node setup.mjs --tests     also what only tests use; without it they skip what needs it, and say so

import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { accessSync, constants, existsSync, lstatSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import * as path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = path.dirname(fileURLToPath(import.meta.url));
const at = (...parts) => path.join(root, ...parts);
const goOn = process.argv.includes('--go-on');
const kernelVersion = '6.12';
const started = Date.now();

/** The commands our code starts, the packages that bring them and who needs them: testbed/doctor/packages.ts says how to read it. */
const table = JSON.parse(readFileSync(at('testbed', 'doctor', 'packages.json'), 'utf8'));
const tests = process.argv.includes('--tests');
const named = (holds) => Object.keys(table).filter((name) => holds(table[name]));
const forRuns = ({ needed }) => needed === 'always' || needed === 'usually';
const commands = named(forRuns);
/** What only tests run: tools and servers that ours must get on with, and those that meddle with what is checked. */
const testCommands = tests ? named((entry) => entry.tests === true && !forRuns(entry)) : [];
/** The same, but not free software everywhere (netperf in Debian 12): installed where the machine's own sources have it, never asked for. */
const testCommandsIfOffered = tests ? named((entry) => entry.tests === 'if offered') : [];
/** Services of Debian's packages that are not called after the package. */
const services = {
  'docker.io': ['docker.service', 'docker.socket', 'containerd.service'],
  'openssh-server': ['ssh.service', 'ssh.socket'],
  podman: ['podman.service', 'podman.socket', 'podman-restart.service', 'podman-auto-update.service', 'podman-auto-update.timer'],
};
/** What is started by its file's name: the command line and its threads (compiledFile in kernel/project.ts). */
const bundled = ['testbed/cli/main.ts', 'testbed/run/analysis-worker.ts', 'testbed/influx/worker.ts'];

/** What is left for the user to do. */
const leftOver = [];

// ---- progress: one line a step; on a terminal it rewrites itself while the step works

const tty = process.stdout.isTTY === true;
const seconds = (since) => `${((Date.now() - since) / 1000).toFixed(1)} s`;

class Step {
  constructor(what) {
    this.what = what;
    this.since = Date.now();
    this.detail = '';
    this.fraction = null;
    this.shown = -1;
    // On a terminal the clock runs; elsewhere a line every 15 s shows that something still happens.
    this.timer = setInterval(() => this.draw(!tty), tty ? 200 : 15_000);
  }

  /** @param fraction 0 … 1, or null when unknown */
  at(detail, fraction = null) {
    this.detail = detail;
    this.fraction = fraction;
    const tenth = fraction === null ? -1 : Math.floor(fraction * 10);
    if (!tty && tenth > this.shown) {
      this.shown = tenth;
      this.draw(true);
    }
  }

  draw(line) {
    const percent = this.fraction === null ? '' : ` ${Math.floor(this.fraction * 100)} %`;
    const text = `… ${this.what}${this.detail ? `: ${this.detail}` : ''}${percent} (${seconds(this.since)})`;
    if (line) console.log(text);
    else process.stdout.write(`\r\x1b[K${text.slice(0, Math.max(20, (process.stdout.columns || 80) - 1))}`);
  }

  end(mark, text) {
    clearInterval(this.timer);
    if (tty) process.stdout.write('\r\x1b[K');
    console.log(`${mark} ${this.what}${text ? `: ${text}` : ''} (${seconds(this.since)})`);
  }
  done(text = '') { this.end('✓', text); }
  missing(text) { this.end('✗', text); }
}

/** Runs a program to its end. `onStatus` gets the lines of its descriptor 3. Resolves to what it printed; rejects with its last lines. */
function run(command, args, { onStatus, env } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd: root, env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe', ...(onStatus ? ['pipe'] : [])] });
    let out = '';
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => { out += text; });
    let partial = '';
    child.stdio[3]?.setEncoding('utf8').on('data', (text) => {
      const lines = (partial + text).split('\n');
      partial = lines.pop();
      lines.forEach(onStatus);
    });
    child.on('error', reject);
    child.on('close', (code) => {
      if (code === 0) resolve(out);
      else reject(new Error(`${path.basename(command)} ${args[0] ?? ''} failed (exit code ${code}):\n${out.trim().split('\n').slice(-15).join('\n')}`));
    });
  });
}

// ---- the system's packages

function findProgram(name) {
  const { files } = table[name] ?? {};
  if (files) return files.some((file) => existsSync(file)); // a library
  const folders = [...(process.env.PATH ?? '').split(':'), '/usr/local/sbin', '/usr/sbin', '/sbin'];
  return folders.some((folder) => {
    try {
      if (folder !== '') accessSync(path.join(folder, name), constants.X_OK);
      return folder !== '';
    } catch {
      return false;
    }
  });
}

function distribution() {
  let text = '';
  try {
    text = readFileSync('/etc/os-release', 'utf8');
  } catch {
    // not every system has one
  }
  const value = (key) => new RegExp(`^${key}=(.*)$`, 'm').exec(text)?.[1]?.replaceAll('"', '') ?? '';
  const ids = `${value('ID')} ${value('ID_LIKE')}`.split(/\s+/);
  if (ids.some((id) => id === 'debian' || id === 'ubuntu')) return 'debian';
  if (ids.some((id) => id === 'fedora' || id === 'rhel' || id === 'centos')) return 'fedora';
  return ids.includes('arch') ? 'arch' : null;
}

const installers = { debian: 'apt-get install --no-install-recommends', fedora: 'dnf install', arch: 'pacman -S' };

function packagesOf(missing, family) {
  return [...new Set(missing.flatMap((command) => table[command][family]?.split(' ') ?? []))];
}

/** A C compiler without the C library's headers is of no use, and no command tells. */
const headersMissing = () => findProgram('gcc') && !existsSync('/usr/include/stdlib.h');

/** Whether apt could install what brings the command, from the machine's own sources. */
function offered(command) {
  const { stdout } = spawnSync('apt-cache', ['policy', ...packagesOf([command], 'debian')], { encoding: 'utf8', env: { ...process.env, LC_ALL: 'C' } });
  return /^ *Candidate: (?!\(none\))/m.test(stdout ?? '');
}

/**
 * Packages with a service (all of them for tests) must not start it: Debian asks /usr/sbin/policy-rc.d. Ours
 * refuses only as long as this process lives, should it be left behind.
 * @returns what takes it away again
 */
function noServices() {
  const file = '/usr/sbin/policy-rc.d';
  try {
    writeFileSync(file, `#!/bin/sh\n# made by the set-up of testbed\nif [ -d /proc/${process.pid} ]; then exit 101; fi\nexit 0\n`, { mode: 0o755, flag: 'wx' });
  } catch {
    return () => {}; // the machine has a policy of its own
  }
  const remove = () => rmSync(file, { force: true });
  process.on('exit', remove);
  return remove;
}

/** Nor may it start with the machine. Only of packages that were installed just now. */
async function disableServices(packages) {
  if (!existsSync('/run/systemd/system')) return;
  const units = packages.flatMap((name) => services[name] ?? [`${name}.service`]).filter((unit) => existsSync(`/lib/systemd/system/${unit}`));
  for (const unit of units) {
    await run('systemctl', ['disable', '--quiet', unit]).catch((error) => console.log(`  ${error.message}`));
  }
}

async function systemPackages() {
  const lacking = () => [...[...commands, ...testCommands].filter((command) => !findProgram(command)), ...(headersMissing() ? ['gcc'] : [])];
  let missing = lacking();
  const step = new Step('system packages');
  const family = distribution();
  const offeredToo = family === 'debian' && process.getuid?.() === 0 ? testCommandsIfOffered.filter((command) => !findProgram(command) && offered(command)) : [];
  if (missing.length === 0 && offeredToo.length === 0) return step.done();
  if (family === 'debian' && process.getuid?.() === 0) {
    const all = packagesOf([...missing, ...offeredToo], 'debian');
    // What runs need comes together. What only tests use comes one by one: a release that lacks one still gets the others.
    const alone = packagesOf([...missing.filter((each) => testCommands.includes(each)), ...offeredToo], 'debian');
    const together = all.filter((each) => !alone.includes(each));
    // apt tells how far it is on a descriptor of its own, and closes that one for the packages' scripts: were it standard output,
    // adduser in them could not print and fails (influxdb's was left half configured).
    const options = ['-y', '-q', '--no-install-recommends', '-o', 'APT::Status-Fd=3', '-o', 'Dpkg::Use-Pty=0'];
    const onStatus = (line) => {
      const status = /^(dl|pm)status:[^:]*:([\d.]+):/.exec(line);
      if (status) step.at(`${status[1] === 'dl' ? 'download' : 'install'} ${all.join(' ')}`, Number(status[2]) / 100);
    };
    const env = { DEBIAN_FRONTEND: 'noninteractive', LC_ALL: 'C' };
    const install = (packages) => run('apt-get', ['install', ...options, ...packages], { onStatus, env });
    let updated = false;
    const allowServices = noServices();
    try {
      for (const packages of [...(together.length > 0 ? [together] : []), ...alone.map((each) => [each])]) {
        step.at(packages.join(' '));
        try {
          await install(packages).catch(async (error) => {
            if (updated) throw error;
            step.at('apt-get update');
            await run('apt-get', ['update', '-q'], { env });
            updated = true;
            await install(packages);
          });
        } catch (error) {
          console.log(`  ${packages.join(' ')}: ${error.message.split('\n').at(-1)}`);
        }
      }
    } finally {
      allowServices();
    }
    await disableServices(alone);
    missing = lacking();
    if (missing.length === 0) return step.done(all.join(' '));
  }
  const how = family
    ? `${process.getuid?.() === 0 ? '' : 'as root: '}${installers[family]} ${packagesOf(missing, family).join(' ')}`
    : ['debian', 'fedora', 'arch'].map((each) => `as root, ${each}: ${installers[each]} ${packagesOf(missing, each).join(' ')}`).join('\n    ');
  step.missing(`missing ${missing.join(', ')}`);
  leftOver.push(`${missing.join(', ')} →\n    ${how}`);
}

// ---- npm packages

async function npmPackages() {
  const step = new Step('npm packages');
  const folder = at('node_modules');
  if (existsSync(folder) && lstatSync(folder).isSymbolicLink()) return step.done('node_modules is a link: left as it is');
  const lock = readFileSync(at('package-lock.json'), 'utf8');
  const stamp = path.join(folder, '.testbed-setup');
  const wanted = createHash('sha256').update(lock).update(process.versions.modules).digest('hex');
  const installed = path.join(folder, '.package-lock.json');
  const current = existsSync(stamp)
    ? readFileSync(stamp, 'utf8') === wanted && existsSync(installed)
    : existsSync(installed) && statSync(installed).mtimeMs >= statSync(at('package-lock.json')).mtimeMs; // by hand
  if (!current) {
    const names = Object.entries(JSON.parse(lock).packages).filter(([name, entry]) => name !== '' && !entry.optional).map(([name]) => name);
    const watch = setInterval(() => step.at('npm ci', Math.min(0.99, names.filter((name) => existsSync(at(name, 'package.json'))).length / names.length)), 1000);
    try {
      // None of our packages needs its install script: koffi, esbuild and DuckDB bring their programs ready-made.
      await run('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund']);
    } finally {
      clearInterval(watch);
    }
  }
  if (!existsSync(stamp) || !current) writeFileSync(stamp, wanted);
  // `npx testbed` finds a program here; npm links those of dependencies only.
  const link = path.join(folder, '.bin', 'testbed');
  if (!existsSync(link)) {
    mkdirSync(path.dirname(link), { recursive: true });
    rmSync(link, { force: true });
    symlinkSync(path.join('..', '..', 'bin', 'testbed.cjs'), link);
  }
  step.done();
}

// ---- the program

function* filesBelow(folder, end) {
  if (!existsSync(at(folder))) return;
  for (const entry of readdirSync(at(folder), { withFileTypes: true })) {
    const name = path.join(folder, entry.name);
    if (entry.isDirectory()) yield* filesBelow(name, end);
    else if (entry.name.endsWith(end)) yield name;
  }
}

/**
 * Two forms of import that cost a short command time, written as their cheaper equals. `import { z } from 'zod'` brings all of zod, its
 * fifty languages too; as a namespace import only what is used. For `import * as fs from 'node:fs'` in CommonJS esbuild copies
 * all names of that module, in each of the hundred files that have the line.
 */
const cheapImports = {
  name: 'cheap-imports',
  setup(build) {
    build.onLoad({ filter: /\.ts$/ }, ({ path: file }) => ({
      contents: readFileSync(file, 'utf8').replace(/^import \{ z \} from 'zod';/m, "import * as z from 'zod';").replace(/^import \* as (\w+) from ('node:[\w/]+');/gm, 'import $1 = require($2);'),
      loader: 'ts',
    }));
  },
};

/** DuckDB's package asks Node for a whole diagnostic report to learn which C library this is; npm installs the program for that one only. */
const duckdbAtOnce = {
  name: 'duckdb-at-once',
  setup(build) {
    build.onResolve({ filter: /^@duckdb\/node-bindings$/ }, ({ path: name, importer }) => (importer === name ? { path: name, external: true } : { path: name, namespace: 'duckdb-at-once' }));
    build.onLoad({ filter: /.*/, namespace: 'duckdb-at-once' }, () => ({
      contents: `try { module.exports = require(\`@duckdb/node-bindings-\${process.platform}-\${process.arch}/duckdb.node\`); } catch { module.exports = require('@duckdb/node-bindings'); }`,
    }));
  },
};

async function compile() {
  const step = new Step('build');
  const folders = JSON.parse(readFileSync(at('tsconfig.json'), 'utf8')).include;
  const sources = folders.flatMap((folder) => [...filesBelow(folder, '.ts')]).sort();
  const hash = createHash('sha256');
  for (const file of [...sources, 'tsconfig.json', 'package-lock.json', 'setup.mjs']) {
    const { mtimeMs, size } = statSync(at(file));
    hash.update(`${file} ${mtimeMs} ${size}\n`);
  }
  const wanted = hash.digest('hex');
  const stamp = at('dist', '.setup');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted && existsSync(at('dist', 'agent.mjs')) && existsSync(at('dist', 'bundle', 'testbed', 'cli', 'main.js'))) return step.done();
  rmSync(stamp, { force: true });
  // What was compiled from a file that is gone would still be run, tests above all.
  const known = new Set(sources.map((file) => file.slice(0, -'.ts'.length)));
  for (const folder of folders) {
    for (const file of filesBelow(path.join('dist', folder), '.js')) {
      if (!known.has(path.relative('dist', file).slice(0, -'.js'.length))) for (const end of ['', '.map']) rmSync(at(file + end), { force: true });
    }
  }
  step.at(`compile ${sources.length} files`);
  await run(process.execPath, [at('node_modules', 'typescript', 'bin', 'tsc'), '-p', '.']);
  step.at('bundle');
  const { default: esbuild } = await import(pathToFileURL(at('node_modules', 'esbuild', 'lib', 'main.js')).href);
  const common = {
    bundle: true, platform: 'node', format: 'esm', target: 'node20', logLevel: 'error', sourcemap: true,
    // For the CommonJS packages among those bundled.
    banner: { js: "import { createRequire as createRequireForBundle } from 'node:module'; const require = createRequireForBundle(import.meta.url);" },
  };
  const lean = at('testbed', 'agent', 'without-schemas.ts');
  // Reading the text is a good part of a short run; names stay, for stack traces.
  const terse = { minifyWhitespace: true, minifySyntax: true };
  const single = (from, to, more = {}) => esbuild.build({ ...common, entryPoints: [at(...from.split('/'))], outfile: at('dist', to), external: ['koffi'], ...more });
  await Promise.all([
    // The programs that run on the machine whose kernel is used: the agent, the userspace bottleneck, the hosts in containers.
    // They get validated plans: the schemas' library would only cost start-up time in the guest.
    single('testbed/agent/main.ts', 'agent.mjs', { alias: { zod: lean } }),
    single('daemon/main.ts', 'daemon.mjs', { alias: { zod: lean } }),
    single('testbed/hosts/containers.ts', 'containers.mjs', { alias: { zod: lean, ssh2: lean }, sourcemap: false }),
    // The agent with what a remote machine is asked besides (machines/ssh); from there nobody goes on to a third machine.
    single('testbed/agent/remote.ts', 'remote.mjs', { alias: { zod: lean, ssh2: lean }, sourcemap: false }),
  ]);
  // The command line in one file: reading some hundred modules one by one is a good part of a short run. CommonJS, whose
  // compiled code can be kept (bin/cached.cjs).
  rmSync(at('dist', 'bundle'), { recursive: true, force: true });
  const cjs = {
    bundle: true, platform: 'node', format: 'cjs', target: 'node20', logLevel: 'error', sourcemap: true, ...terse,
    outdir: at('dist', 'bundle'), outbase: root,
    define: { 'import.meta.url': 'urlOfBundle' },
    banner: { js: "const urlOfBundle = require('node:url').pathToFileURL(__filename).href;" },
    supported: { 'dynamic-import': false }, // what is loaded only when needed is in the same file, run when needed
    // Those with programs of their own beside them, and those that look for optional packages.
    external: ['koffi', '@duckdb/node-bindings', '@duckdb/node-bindings-*', 'esbuild', 'dockerode', 'ssh2'],
    plugins: [cheapImports, duckdbAtOnce],
  };
  await esbuild.build({ ...cjs, entryPoints: bundled.map((file) => at(...file.split('/'))) });
  // The simulator's thread gets a plan that was validated in the main thread, as the agent does.
  await esbuild.build({ ...cjs, entryPoints: [at('simulator', 'worker.ts')], alias: { zod: lean }, plugins: [] });
  // `build` tells builds apart: bin/cached.cjs.
  const build = createHash('sha256').update(readFileSync(at('dist', 'bundle', 'testbed', 'cli', 'main.js'))).digest('hex').slice(0, 16);
  writeFileSync(at('dist', 'bundle', 'package.json'), `${JSON.stringify({ type: 'commonjs', build })}\n`);
  writeFileSync(stamp, wanted);
  step.done(`${sources.length} files`);
}

// ---- the kernel

async function kernel() {
  const step = new Step(`UML kernel ${kernelVersion}`);
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    step.missing(`UML needs Linux on x86-64; this is ${process.platform} ${process.arch}`);
    leftOver.push('a Linux machine on x86-64, for real kernels; the simulator runs here');
    return;
  }
  const compiled = (file) => import(pathToFileURL(at('dist', 'kernel', file)).href);
  const [{ builtKernels }, { configHash }, { builtCompanions }] = [await compiled('cache.js'), await compiled('config.js'), await compiled('preload.js')];
  const hash = configHash();
  const there = builtKernels().find((built) => built.name === kernelVersion && built.configHash === hash);
  if (there && builtCompanions()) return step.done(there.release);
  const controller = new AbortController();
  const stop = () => controller.abort();
  process.on('SIGINT', stop).on('SIGTERM', stop);
  try {
    if (there) {
      await (await compiled('preload.js')).companions(controller.signal);
      return step.done(there.release);
    }
    const { buildKernel } = await compiled('build.js');
    const { kernel: built } = await buildKernel({ version: kernelVersion }, {
      signal: controller.signal,
      onProgress: ({ step: what, fraction, remainingS }) => step.at(remainingS === null ? what : `${what}, about ${Math.ceil(remainingS)} s left,`, fraction),
    });
    step.done(built.release);
  } catch (error) {
    if (error.name !== 'UserError') throw error;
    const message = error.message.replace(`kernel ${kernelVersion}: `, '');
    step.missing(message);
    if (controller.signal.aborted) process.exit(130);
    // What to do stands after the semicolon, where the machine itself cannot be mended.
    const instead = leftOver.length === 0 ? /; (.*testbed kernel build .*)$/s.exec(message)?.[1] : undefined;
    leftOver.push(`the UML kernel →\n    ${instead?.replace('testbed kernel', 'npx testbed kernel') ?? 'node setup.mjs again, when the above is mended'}`);
  } finally {
    process.off('SIGINT', stop).off('SIGTERM', stop);
  }
}

// ----

if (Number(process.versions.node.split('.')[0]) < 20) {
  console.error(`testbed needs Node 20 or newer; this is ${process.version}`);
  process.exit(1);
}
try {
  await systemPackages();
  await npmPackages();
  await compile();
  await kernel();
} catch (error) {
  if (tty) process.stdout.write('\r\x1b[K');
  console.error(`✗ ${error.message}`);
  process.exit(1);
}
if (leftOver.length > 0) {
  console.log(`\nStill missing, for you to install:\n${leftOver.map((each) => `  ${each}`).join('\n')}\n`);
  process.exit(goOn ? 0 : 1);
}
console.log(`ready (${seconds(started)})${goOn ? '' : '; try: npx testbed run topologies/parking-lot.yaml'}`);
