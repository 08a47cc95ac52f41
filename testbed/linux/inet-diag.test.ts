import assert from 'node:assert/strict';
import { once } from 'node:events';
import * as net from 'node:net';
import { TcpLookups, addressHex, dumpTcp, infiniteSsthresh, openDiag } from './inet-diag.js';
import { close } from './libc.js';

/** 100 000 bytes sent over loopback to a dual-stack server, as iperf3's is. */
async function connection(host: string): Promise<{ readonly port: number; readonly localPort: number; readonly end: () => void }> {
  const server = net.createServer().listen(0, '::');
  await once(server, 'listening');
  const { port } = server.address() as net.AddressInfo;
  const client = net.connect(port, host);
  const [accepted] = await once(server, 'connection') as [net.Socket];
  let received = 0;
  const whole = new Promise<void>((resolve) => { accepted.on('data', (data: Buffer) => { received += data.length; if (received === 100_000) resolve(); }); });
  client.write(Buffer.alloc(100_000));
  await whole;
  return { port, localPort: client.localPort!, end: () => { client.destroy(); accepted.destroy(); server.close(); } };
}

describe('INET_DIAG', () => {
  for (const [family, host] of [[4, '127.0.0.1'], [6, '::1']] as const) {
    it(`dumps both ends of an IPv${family} connection`, async () => {
      const { port, localPort, end } = await connection(host);
      const fd = openDiag();
      try {
        const seen: string[] = [];
        dumpTcp(fd, family, (socket) => {
          if (socket.sourcePort === localPort && socket.destinationPort === port) {
            seen.push('sender');
            assert.equal(socket.bytesSent, 100_000);
            assert.ok(socket.cwnd > 0 && socket.srttNs > 0 && socket.dataSegmentsOut > 0);
            assert.equal(socket.ssthresh, infiniteSsthresh);
            assert.equal(socket.source, addressHex(host));
            assert.equal(socket.mapped, false);
          } else if (socket.sourcePort === port && socket.destinationPort === localPort) {
            seen.push('receiver');
            assert.equal(socket.bytesReceived, 100_000);
            assert.equal(socket.destination, addressHex(host));
            assert.equal(socket.mapped, family === 4);
          }
        });
        assert.deepEqual(seen.sort(), ['receiver', 'sender']);
      } finally {
        close(fd);
        end();
      }
    });

    it(`answers for given IPv${family} connections, and says which are not there`, async () => {
      const { port, localPort, end } = await connection(host);
      const fd = openDiag();
      try {
        const [source, destination] = [addressHex(host), addressHex(host)];
        const lookups = new TcpLookups(fd);
        lookups.add(1, { source, sourcePort: localPort, destination, destinationPort: port });
        for (let key = 2; key <= 300; key++) lookups.add(key, { source, sourcePort: 1, destination, destinationPort: key });
        lookups.add(301, { source, sourcePort: port, destination, destinationPort: localPort });
        for (let round = 0; round < 2; round++) {
          const found = new Map<number, number>();
          const absent: number[] = [];
          lookups.ask((key, socket) => found.set(key, socket.bytesReceived), (key) => absent.push(key));
          assert.deepEqual([...found], [[1, 0], [301, 100_000]]);
          assert.equal(absent.length, 299);
        }
      } finally {
        close(fd);
        end();
      }
    });
  }
});
