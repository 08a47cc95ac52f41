/** `testbed kernel build | list | remove`: the UML kernels of this user. */

import { missedBy } from '../../kernel/config.js';
import pc from 'picocolors';
import type { Command } from 'commander';
import { buildKernel, type BuildProgress } from '../../kernel/build.js';
import { builtKernels, removeKernel } from '../../kernel/cache.js';
import { configHash } from '../../kernel/config.js';
import { companions } from '../../kernel/preload.js';
import { findProgram } from '../../kernel/project.js';
import { selectKernel } from '../../kernel/select.js';
import { debianName, defaultVersion, testedVersions } from '../../kernel/versions.js';
import { howToInstall } from '../doctor/packages.js';
import { UserError } from '../errors.js';

const duration = (seconds: number): string => (seconds < 100 ? `${Math.round(seconds)} s` : `${Math.floor(seconds / 60)} min ${String(Math.round(seconds % 60)).padStart(2, '0')} s`);

/** One line that rewrites itself on a terminal; elsewhere a line a step and every tenth of the compilation. */
export function progressPrinter(label: string, stream: NodeJS.WriteStream = process.stderr): { show(progress: BuildProgress): void; end(): void } {
  let last = '';
  let shown = 0;
  return {
    show: ({ step, fraction, elapsedS, remainingS }) => {
      const percent = fraction === null ? '' : ` ${String(Math.floor(fraction * 100)).padStart(2)} %`;
      const left = remainingS === null ? '' : `, about ${duration(remainingS)} left`;
      const text = `${label}: ${step}${percent} (${duration(elapsedS)}${left})`;
      if (stream.isTTY) {
        if (Date.now() - shown < 100 && last === step) return;
        shown = Date.now();
        last = step;
        stream.write(`\r\x1b[K${text.slice(0, Math.max(20, (stream.columns || 80) - 1))}`);
      } else {
        const key = `${step} ${fraction === null ? '' : Math.floor(fraction * 10)}`;
        if (key === last) return;
        last = key;
        stream.write(`${text}\n`);
      }
    },
    end: () => { if (stream.isTTY && last !== '') stream.write('\r\x1b[K'); },
  };
}

async function build(version: string | undefined, options: { source?: string; name?: string; again?: boolean; ifMissing?: boolean }): Promise<void> {
  if (options.source !== undefined && version !== undefined) throw new UserError('a kernel is built from a version or from --source DIR, not both', 2);
  if (options.name !== undefined && options.source === undefined) throw new UserError('--name names a kernel built with --source DIR', 2);
  const wanted = version ?? defaultVersion;
  if (options.ifMissing && options.source === undefined) {
    const selection = selectKernel(wanted);
    const hash = configHash();
    if (selection.kernel && builtKernels().some((kernel) => kernel.name === selection.kernel.name && kernel.configHash === hash)) {
      await companions();
      return;
    }
  }
  const controller = new AbortController();
  const stop = (): void => { controller.abort(); };
  process.once('SIGINT', stop);
  process.once('SIGTERM', stop);
  const label = `kernel ${options.source === undefined ? wanted : (options.name ?? options.source)}`;
  const printer = progressPrinter(label);
  try {
    const request = options.source === undefined ? { version: wanted } : { source: options.source, ...(options.name === undefined ? {} : { name: options.name }) };
    const { kernel, built } = await buildKernel(request, { signal: controller.signal, onProgress: (progress) => { printer.show(progress); }, again: options.again ?? false });
    printer.end();
    console.log(`kernel ${kernel.name}: ${kernel.release} ${built ? `built in ${duration(kernel.buildSeconds)}` : 'is already built'}, to use with --machine uml:${kernel.name}`);
    if (built && kernel.notAsAsked.length > 0) console.log(pc.dim(`  this source does not have as asked: ${kernel.notAsAsked.join(', ')}`));
  } finally {
    printer.end();
    process.off('SIGINT', stop);
    process.off('SIGTERM', stop);
  }
}

function list(options: { json?: boolean }): void {
  const selected = selectKernel(debianName);
  const debian = selected.kernel;
  const kernels = builtKernels();
  if (options.json) {
    console.log(JSON.stringify([
      ...kernels.map(({ options: _, ...kernel }) => kernel),
      ...(debian ? [{ name: debianName, release: debian.release, binary: debian.binary, virtualTime: debian.virtualTime }] : []),
    ], null, 2));
    return;
  }
  const hash = configHash();
  const rows = kernels.map((kernel) => [
    `uml:${kernel.name}`, kernel.release, kernel.virtualTime ? 'virtual, real' : 'real',
    `${kernel.package ? `${kernel.package.name} ${kernel.package.version}` : kernel.source}${kernel.configHash === hash ? '' : ' (older kernel/uml.config)'}`,
    kernel.builtAt.slice(0, 10), missedBy(kernel.notAsAsked).length > 0 ? `without ${missedBy(kernel.notAsAsked).join(', ')}` : '',
  ]);
  if (debian) rows.push([`uml:${debianName}`, debian.release, 'real', `package user-mode-linux`, '', findProgram('modprobe') === null ? `needs modprobe: ${howToInstall(['modprobe'])}` : '']);
  for (const version of testedVersions) {
    if (!kernels.some((kernel) => kernel.name === version)) rows.push([`uml:${version}`, 'not built', '', `testbed kernel build ${version}`, '', '']);
  }
  if (selected.kernel === null) rows.push([`uml:${debianName}`, 'not there', '', selected.fix, '', '']);
  const header = ['machine', 'release', 'clocks', 'from', 'built', ''];
  const widths = header.map((title, i) => Math.max(title.length, ...rows.map((row) => row[i]!.length)));
  for (const row of [header, ...rows]) console.log(row.map((cell, i) => cell.padEnd(widths[i]!)).join('  ').trimEnd());
}

export function register(program: Command): void {
  const kernel = program.command('kernel').description('build, list and remove the UML kernels that runs use');
  kernel
    .command('build')
    .description(`build a kernel from Debian's source package, or from a tree of yours; default ${defaultVersion}`)
    .argument('[version]', `${testedVersions.join(', ')}, newest, or another X.Y that Debian has as linux-source-X.Y`)
    .option('--source <dir>', 'a Linux source tree; it is not changed')
    .option('--name <name>', 'what to call a kernel built with --source (default: its folder\'s name)')
    .option('--again', 'build even if it is there')
    .option('--if-missing', 'do nothing, and ask no package archive, when any release of this version is there')
    .action(build);
  kernel.command('list').description('kernels that are built, and those that could be').option('--json', 'as JSON').action(list);
  kernel
    .command('remove')
    .description('remove built kernels')
    .argument('<name...>', 'as `kernel list` names them, with or without uml:')
    .action((names: string[]) => {
      for (const name of names.map((each) => each.replace(/^uml:/, ''))) {
        if (name === debianName) throw new UserError(`uml:${debianName} is a package of the system: apt-get remove user-mode-linux`, 2);
        for (const removed of removeKernel(name)) console.log(`removed ${removed.name} (${removed.release})`);
      }
    });
}
