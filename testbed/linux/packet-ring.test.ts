import assert from 'node:assert/strict';
import fc from 'fast-check';
import { PACKET_OUTGOING, packetFilter, snapBytes } from './packet-ring.js';
import type { Instruction } from './packet-ring.js';

/** Classic BPF as far as packetFilter uses it. @returns bytes kept, 0 = refused */
function runFilter(program: readonly Instruction[], packet: { readonly kind: number; readonly ifindex: number; readonly protocol: number }): number {
  const ancillary = new Map([[0xfffff000, packet.protocol], [0xfffff004, packet.kind], [0xfffff008, packet.ifindex]]);
  let accumulator = 0;
  for (let at = 0, steps = 0; ; at++) {
    assert.ok(++steps <= program.length, 'a filter never runs backwards');
    const { code, jt, jf, k } = program[at]!;
    assert.ok(jt < 256 && jf < 256, 'jumps fit 8 bits');
    switch (code) {
      case 0x20: case 0x28: accumulator = ancillary.get(k)!; break;
      case 0x15: at += accumulator === k ? jt : jf; break;
      case 0x35: at += accumulator >= k ? jt : jf; break;
      case 0x05: at += k; break;
      case 0x06: return k;
      default: assert.fail(`instruction ${code}`);
    }
  }
}

describe('The filter of a capture', () => {
  it('lets in exactly IP packets that leave by given interfaces or enter by the others, however many there are', () => {
    const interfaces = fc.array(fc.integer({ min: 1, max: 400 }), { maxLength: 300 });
    fc.assert(fc.property(interfaces, interfaces, fc.boolean(), (leaving, entering, negated) => {
      const program = packetFilter(leaving, { interfaces: entering, negated });
      for (let ifindex = 1; ifindex <= 402; ifindex += ifindex < 20 ? 1 : 7) {
        for (const kind of [0, 3, PACKET_OUTGOING]) {
          const wanted = kind === PACKET_OUTGOING ? leaving.includes(ifindex) : entering.includes(ifindex) !== negated;
          assert.equal(runFilter(program, { kind, ifindex, protocol: 0x0800 }), wanted ? snapBytes[4] : 0);
          assert.equal(runFilter(program, { kind, ifindex, protocol: 0x86dd }), wanted ? snapBytes[6] : 0);
          assert.equal(runFilter(program, { kind, ifindex, protocol: 0x0806 }), 0);
        }
      }
    }), { numRuns: 100 });
  });
});
