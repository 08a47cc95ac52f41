/** `testbed image build`: the image of hosts in containers. */

import { type Command, Option } from 'commander';
import { openEngine } from '../hosts/engine.js';
import { buildImage, imageName } from '../hosts/image.js';

export function register(program: Command): void {
  const image = program.command('image').description('the image that --hosts docker makes its hosts from');
  image.command('build')
    .description(`build ${imageName} in this machine's container engine (Docker, or podman by its socket)`)
    .addOption(new Option('--from <source>', 'registry: from a Dockerfile on debian:13-slim; machine: from the programs of this machine; auto: the first that works').choices(['auto', 'registry', 'machine']).default('auto'))
    .action(async ({ from }: { from: 'auto' | 'registry' | 'machine' }) => {
      const engine = await openEngine();
      process.stderr.write(`${imageName} in ${engine.name} (${engine.socket})\n`);
      const how = await buildImage(engine, from, (line) => { process.stderr.write(`  ${line}\n`); });
      process.stdout.write(`${imageName} is built, from ${how === 'registry' ? 'its Dockerfile' : 'the programs of this machine'}; use it with --hosts docker\n`);
    });
}
