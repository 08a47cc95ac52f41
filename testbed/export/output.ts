/**
 * Where an export writes: a file, made as `<name>.partial` and given its name when it is whole, or standard output, or
 * a device. Whatever goes wrong, no half file stays under the name it should have. Waits while the disk or the reader is slower.
 */

import * as fs from 'node:fs';
import * as path from 'node:path';
import { once } from 'node:events';
import { finished } from 'node:stream/promises';
import type { Writable } from 'node:stream';
import { UserError } from '../errors.js';
import { isDiskFull } from '../run/full-disk.js';

export interface Output {
  /** For messages. */
  readonly name: string;
  write(data: string | Uint8Array): Promise<void>;
  /** Whole: gets its name. */
  close(): Promise<void>;
  /** Not to be: removes it. */
  discard(): Promise<void>;
}

/** Bytes gathered before they are handed on. */
const blockBytes = 1 << 18;

/**
 * @param file `-` for standard output
 * @param force overwrite a file that is there
 * @throws UserError when it cannot be made
 */
export async function openOutput(file: string, force: boolean): Promise<Output> {
  if (file === '-') return gathered('standard output', process.stdout, async () => {}, async () => {});
  const existing = fs.statSync(file, { throwIfNoEntry: false });
  if (existing?.isDirectory()) throw new UserError(`${file} is a folder`, 2);
  const device = existing !== undefined && !existing.isFile(); // a pipe, /dev/null, …: as it is
  if (existing?.isFile() && !force) throw new UserError(`${file} is there already; give another name with --out, or overwrite it with --force`, 2);
  const target = device ? file : `${file}.partial`;
  try {
    fs.mkdirSync(path.dirname(file), { recursive: true });
  } catch (error) {
    throw cannot(file, error);
  }
  const stream = fs.createWriteStream(target, { flags: 'w', highWaterMark: blockBytes });
  try {
    await once(stream, 'open');
  } catch (error) {
    throw cannot(file, error);
  }
  return gathered(file, stream, async () => {
    stream.end();
    await finished(stream);
    if (!device) fs.renameSync(target, file);
  }, async () => {
    stream.destroy();
    if (!device) fs.rmSync(target, { force: true });
  });
}

function gathered(name: string, stream: Writable, end: () => Promise<void>, drop: () => Promise<void>): Output {
  let failure: Error | null = null;
  // One waiter at a time, woken by whatever comes: room, an error, or the end.
  let wake = (): void => {};
  stream.on('error', (error: Error) => { failure ??= error; wake(); });
  for (const event of ['drain', 'close']) stream.on(event, () => { wake(); });
  let texts: string[] = [];
  let blocks: Uint8Array[] = [];
  let bytes = 0;
  const pass = async (data: Uint8Array | string): Promise<void> => {
    if (failure !== null) throw cannot(name, failure);
    if (stream.write(data)) return;
    if (!stream.destroyed && stream.writableNeedDrain) await new Promise<void>((resolve) => { wake = resolve; });
    if (failure !== null) throw cannot(name, failure);
  };
  const flush = async (): Promise<void> => {
    if (texts.length > 0) {
      blocks.push(Buffer.from(texts.join('')));
      texts = [];
    }
    if (blocks.length === 0) return;
    const block = blocks.length === 1 ? blocks[0]! : Buffer.concat(blocks);
    blocks = [];
    bytes = 0;
    await pass(block);
  };
  return {
    name,
    write: async (data) => {
      if (typeof data === 'string') {
        texts.push(data);
      } else {
        if (texts.length > 0) { blocks.push(Buffer.from(texts.join(''))); texts = []; }
        blocks.push(data);
      }
      bytes += data.length;
      if (bytes >= blockBytes) await flush();
    },
    close: async () => {
      try {
        await flush();
        await end();
        if (failure !== null) throw cannot(name, failure);
      } catch (error) {
        throw cannot(name, error);
      }
    },
    discard: drop,
  };
}

/** In the user's words where it is the file system's. */
function cannot(name: string, error: unknown): unknown {
  if (error instanceof UserError || !(error instanceof Error) || !('code' in error)) return error;
  if (isDiskFull(error)) return new UserError(`${name}: the disk is full; what was written of it is removed. Free some space, or choose another place with --out`, 1, { cause: error });
  return new UserError(`${name}: it cannot be written (${String(error.code)})`, 1, { cause: error });
}
