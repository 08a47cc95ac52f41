/**
 * Many connections over the line of a UML guest (kernel/boot.ts), the same code at both its ends. A frame is one byte of kind, four of the
 * connection's number, four of length (big-endian), and the bytes. What a slow reader leaves waits in memory: ssh bounds it by its windows.
 *
 * A terminal of UML that is ever throttled, as it is when nearly 4096 bytes wait in it, is never read again (Linux 6.12 and 7.3,
 * arch/um/drivers/line.c: line_throttle takes its interrupt away, line_unthrottle does not give it back). So no more than `windowBytes` are ever on
 * their way into the guest: it tells what it has taken.
 */

import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';

const kinds = { open: 1, data: 2, end: 3, reset: 4, ready: 5, taken: 6 } as const;
const headBytes = 9;
/** Throttled it is at N_TTY_BUF_SIZE (4096) less 128. */
const windowBytes = 3840;

export interface Line {
  readonly from: Readable;
  write(bytes: Buffer): void;
}

export class Multiplex {
  readonly #sockets = new Map<number, Socket>();
  #last = 0;
  #partial = Buffer.alloc(0);
  /** Towards the guest: what waits for room, and how much is on its way. */
  #waiting: Buffer[] = [];
  #underWay = 0;
  /** Resolves when the other end has said that it is there. */
  readonly ready: Promise<void>;
  #readied: () => void = () => undefined;

  /**
   * @param end which of the two this is
   * @param accept what to do with a connection that the other end opens
   */
  constructor(private readonly end: 'host' | 'guest', private readonly line: Line, private readonly accept: () => Socket) {
    this.ready = new Promise((resolve) => { this.#readied = resolve; });
    line.from.on('data', (data: Buffer) => {
      if (end === 'guest') this.#send(kinds.taken, data.length);
      this.#take(data);
    });
  }

  sayReady(): void {
    this.#send(kinds.ready, 0);
  }

  /** Opens a connection at the other end and joins it with this one. */
  open(socket: Socket): void {
    const id = ++this.#last;
    this.#send(kinds.open, id);
    this.#join(id, socket);
  }

  #join(id: number, socket: Socket): void {
    this.#sockets.set(id, socket);
    socket.on('data', (data) => { this.#send(kinds.data, id, data); });
    socket.on('end', () => { this.#send(kinds.end, id); });
    socket.on('error', () => undefined); // told by close
    socket.on('close', () => { if (this.#sockets.delete(id)) this.#send(kinds.reset, id); });
  }

  #send(kind: number, id: number, data: Buffer = Buffer.alloc(0)): void {
    const head = Buffer.alloc(headBytes);
    head.writeUInt8(kind, 0);
    head.writeUInt32BE(id, 1);
    head.writeUInt32BE(data.length, 5);
    if (this.end === 'guest') {
      this.line.write(Buffer.concat([head, data]));
      return;
    }
    this.#waiting.push(head, data);
    this.#fill();
  }

  #fill(): void {
    while (this.#waiting.length > 0 && this.#underWay < windowBytes) {
      const [first] = this.#waiting;
      const piece = first!.subarray(0, windowBytes - this.#underWay);
      if (piece.length < first!.length) this.#waiting[0] = first!.subarray(piece.length);
      else this.#waiting.shift();
      this.#underWay += piece.length;
      this.line.write(piece);
    }
  }

  #take(data: Buffer): void {
    this.#partial = Buffer.concat([this.#partial, data]);
    while (this.#partial.length >= headBytes) {
      const whole = headBytes + this.#partial.readUInt32BE(5);
      if (this.#partial.length < whole) return;
      this.#frame(this.#partial.readUInt8(0), this.#partial.readUInt32BE(1), this.#partial.subarray(headBytes, whole));
      this.#partial = this.#partial.subarray(whole);
    }
  }

  #frame(kind: number, id: number, data: Buffer): void {
    const socket = this.#sockets.get(id);
    if (kind === kinds.ready) this.#readied();
    else if (kind === kinds.taken) {
      this.#underWay -= id;
      this.#fill();
    } else if (kind === kinds.open) this.#join(id, this.accept());
    else if (kind === kinds.data) socket?.write(Buffer.from(data));
    else if (kind === kinds.end) socket?.end();
    else if (kind === kinds.reset) {
      this.#sockets.delete(id);
      socket?.destroy();
    } else throw new Error(`no frame of kind ${kind}: the line is not clean`);
  }
}
