/**
 * The packets of one bottleneck direction, column by column in blocks of 65 536: five million packets take
 * 115 MB and growing never copies. Index = order of arrival.
 */

const blockBits = 16;
export const blockRows = 1 << blockBits;
const blockMask = blockRows - 1;

/** Bits of `flags`; the ECN codepoint on arrival is in bits 4 and 5, why it was dropped (dropReasonCode) above them. */
export const packetFlag = { forward: 1, dropped: 2, marked: 4, own: 8 } as const;
export const ecnShift = 4;
export const ecnMask = 3;
export const reasonShift = 6;
export const noFlow = -0x80000000;

export class PacketBlock {
  readonly tEnqueue = new Float64Array(blockRows);
  /** NaN: dropped or still waiting. */
  readonly tDequeue = new Float64Array(blockRows);
  readonly size = new Uint32Array(blockRows);
  readonly flow = new Int32Array(blockRows);
  readonly flags = new Uint16Array(blockRows);
}

export class PacketColumns {
  private readonly blocks: PacketBlock[] = [];
  length = 0;

  /** @returns the new packet's index */
  push(tEnqueue: number, tDequeue: number, size: number, flow: number, flags: number): number {
    const index = this.length++;
    let block = this.blocks[index >>> blockBits];
    if (block === undefined) this.blocks.push((block = new PacketBlock()));
    const at = index & blockMask;
    block.tEnqueue[at] = tEnqueue;
    block.tDequeue[at] = tDequeue;
    block.size[at] = size;
    block.flow[at] = flow;
    block.flags[at] = flags;
    return index;
  }

  block(index: number): PacketBlock { return this.blocks[index >>> blockBits]!; }
  tEnqueue(index: number): number { return this.block(index).tEnqueue[index & blockMask]!; }
  tDequeue(index: number): number { return this.block(index).tDequeue[index & blockMask]!; }
  size(index: number): number { return this.block(index).size[index & blockMask]!; }
  flow(index: number): number { return this.block(index).flow[index & blockMask]!; }
  flags(index: number): number { return this.block(index).flags[index & blockMask]!; }
  setDequeued(index: number, t: number): void { this.block(index).tDequeue[index & blockMask] = t; }
  addFlags(index: number, flags: number): void { this.block(index).flags[index & blockMask]! |= flags; }
}
