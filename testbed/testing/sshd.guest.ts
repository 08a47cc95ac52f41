/**
 * In a guest: an sshd on its loopback, and the line to the host that carries the connections to it.
 *
 *     node sshd.guest.js LINE PORT SSHD CONFIGURATION
 */

import { execFileSync, spawn } from 'node:child_process';
import * as fs from 'node:fs';
import * as net from 'node:net';
import { Multiplex } from './multiplex.js';

const [, , line = '', port = '', sshd = '', configuration = ''] = process.argv;

fs.mkdirSync('/run/sshd', { mode: 0o755 });
fs.mkdirSync('/run/remote', { mode: 0o755 });
const server = spawn(sshd, ['-D', '-e', '-f', configuration], { stdio: ['ignore', 'inherit', 'inherit'] });
server.on('exit', (code) => { process.exit(code ?? 1); });

// Bytes as they are: no echo, no line ends, no control characters.
execFileSync('stty', ['-F', line, 'raw', '-echo']);
const out = fs.openSync(line, 'w');
let waiting = Buffer.alloc(0);
/** A terminal of UML refuses bytes while its host does, even where a writer would wait (EAGAIN from line_write). */
function flush(): void {
  try {
    while (waiting.length > 0) waiting = waiting.subarray(fs.writeSync(out, waiting));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error;
    setTimeout(flush, 1);
  }
}
const write = (bytes: Buffer): void => {
  const idle = waiting.length === 0;
  waiting = Buffer.concat([waiting, bytes]);
  if (idle) flush();
};
const multiplex = new Multiplex('guest', { from: fs.createReadStream(line), write }, () => net.connect(Number(port), '127.0.0.1'));

const up = setInterval(() => {
  net.connect(Number(port), '127.0.0.1').on('error', () => undefined).on('connect', function connected(this: net.Socket) {
    this.destroy();
    clearInterval(up);
    multiplex.sayReady();
  });
}, 100);
