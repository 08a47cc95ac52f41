/** `testbed image build`: the image of hosts in containers. */

import { type Command, Option } from 'commander';
import { openEngine } from '../hosts/engine.js';
import { buildImage, imageName, imageSources, type ImageSource } from '../hosts/image.js';
import { remoteTarget } from '../machines/registry.js';
import { endNow } from '../run/end-now.js';

export function register(program: Command): void {
  const image = program.command('image').description('the image that --hosts docker makes its hosts from');
  image.command('build')
    .description(`build ${imageName} in this machine's, or a remote one's, container engine (Docker, or podman by its socket)`)
    .addOption(new Option('--from <source>', 'registry: from a Dockerfile on debian:13-slim; machine: from the programs of the machine; auto: the first that works').choices(imageSources).default('auto'))
    .option('--machine <name>', 'in the engine of a remote machine: ssh://user@host[:port], or one of testbed.config.yaml')
    .action(async ({ from, machine }: { from: ImageSource; machine?: string }) => {
      for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => endNow(130));
      const say = (line: string): void => { process.stderr.write(`  ${line}\n`); };
      let how: 'registry' | 'machine';
      if (machine === undefined) {
        const engine = await openEngine();
        process.stderr.write(`${imageName} in ${engine.name} (${engine.socket})\n`);
        how = await buildImage(engine, from, say);
      } else {
        const target = remoteTarget(machine, 'testbed image build uses the engine of this computer by itself');
        process.stderr.write(`${imageName} on ${machine}\n`);
        how = await (await import('../machines/ssh/session.js')).buildImageRemote(target, from, say);
      }
      process.stdout.write(`${imageName} is built, from ${how === 'registry' ? 'its Dockerfile' : `the programs of ${machine ?? 'this machine'}`}; use it with --hosts docker\n`);
    });
}
