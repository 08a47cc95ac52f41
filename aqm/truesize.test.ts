import assert from 'node:assert/strict';
import { truesize } from './truesize.js';

describe('truesize', () => {
  it('is what Linux 6.12 and 7.3 counted a packet in CAKE (memory_used over packets waiting)', () => {
    // IP bytes of UDP packets at a full queue; bytes a packet.
    const udp = { 100: 832, 225: 832, 226: 1280, 353: 1280, 673: 1280, 674: 2304, 1400: 2304, 1500: 2304 } as const;
    for (const [ip, bytes] of Object.entries(udp)) assert.equal(truesize({ size: Number(ip) + 14, datagram: true }), bytes, `UDP, ${ip} bytes`);
    // One TCP flow: 20520 bytes with nine segments of 1448 bytes waiting.
    assert.equal(truesize({ size: 1514, datagram: false }), 20520 / 9);
  });
});
