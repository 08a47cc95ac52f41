import assert from 'node:assert/strict';
import fc from 'fast-check';
import * as fs from 'node:fs';
import { CLOCK_MONOTONIC, clockNs, close, socket, bindSocket, getsockname, stable, tryRecv, trySendto } from '../linux/libc.js';
import { Lateness, Loop } from './loop.js';

const AF_INET = 2;
const SOCK_DGRAM_NONBLOCK = 2 | 0o4000;
const EPOLLIN = 1;

/** A UDP socket on loopback and its address. */
function udp(): { fd: number; address: Buffer } {
  const fd = socket(AF_INET, SOCK_DGRAM_NONBLOCK, 0);
  const address = stable(16);
  address.writeUInt16LE(AF_INET, 0);
  address.set([127, 0, 0, 1], 4);
  bindSocket(fd, address, 16);
  const length = stable(4);
  length.writeUInt32LE(16);
  getsockname(fd, address, length);
  return { fd, address };
}
const data = stable(64);

for (const clock of ['real', 'virtual'] as const) describe(`the event loop of the agent, as for ${clock} time`, () => {
  const withLoop = (call: (loop: Loop) => void, fineWaits = true): void => {
    const loop = new Loop(clockNs(CLOCK_MONOTONIC), clock, fineWaits);
    try {
      call(loop);
    } finally {
      loop.close();
    }
  };

  for (const fineWaits of [true, false]) {
    it(`never calls a timer early, with ${fineWaits ? 'nanosecond' : 'millisecond'} waits`, () => {
      withLoop((loop) => {
        const times = [2.5e6, 1.1e6, 7_000_001.5, 100];
        const early: number[] = [];
        let calls = 0;
        for (const at of times) loop.at(at, (now) => { calls++; if (now < at || loop.now() < at) early.push(at); });
        assert.equal(loop.run(10e6), 'time');
        assert.equal(calls, times.length);
        assert.deepEqual(early, []);
        assert.ok(loop.now() >= 10e6);
      }, fineWaits);
    });
  }

  it('blocks while nothing is due instead of spinning', () => {
    withLoop((loop) => {
      loop.run(50e6);
      assert.ok(loop.wakeups < 10, `${loop.wakeups} wake-ups`);
    });
  });

  it('calls timers in order of time and equal times in the order they were set', () => {
    fc.assert(
      fc.property(fc.array(fc.record({ at: fc.integer({ min: -5, max: 5 }), cancel: fc.boolean() }), { maxLength: 60 }), (timers) => {
        withLoop((loop) => {
          const called: number[] = [];
          const set = timers.map(({ at }, i) => loop.at(at, () => called.push(i)));
          timers.forEach(({ cancel }, i) => { if (cancel) set[i]!.cancel(); });
          loop.run(10);
          const expected = timers.map((timer, i) => ({ ...timer, i })).filter(({ cancel }) => !cancel).sort((a, b) => a.at - b.at || a.i - b.i).map(({ i }) => i);
          assert.deepEqual(called, expected);
        });
      }),
      { numRuns: 200 },
    );
  });

  it('lets a timer cancel another and set new ones for now', () => {
    withLoop((loop) => {
      const called: string[] = [];
      const victim = loop.at(20, () => called.push('victim'));
      loop.at(10, (now) => {
        called.push('first');
        victim.cancel();
        loop.at(now, () => called.push('new'));
      });
      loop.run(1e6);
      assert.deepEqual(called, ['first', 'new']);
    });
  });

  it('repeats on a fixed schedule up to and including the stop time', () => {
    withLoop((loop) => {
      const at: number[] = [];
      loop.every(1e6, 1e6, 5e6, (now) => at.push(now));
      loop.run(8e6);
      assert.equal(at.length + loop.lateness.missedTicks, 5);
      at.forEach((now) => assert.ok(now >= 1e6));
    });
  });

  it('counts late ticks instead of catching up in a burst', () => {
    const loop = new Loop(clockNs(CLOCK_MONOTONIC) - 10.5e6, clock); // 10.5 ms late from the start
    let calls = 0;
    loop.every(0, 1e6, 10e6, () => calls++);
    loop.run(11e6);
    loop.close();
    assert.equal(calls, 1);
    assert.equal(loop.lateness.missedTicks, 10);
  });

  it('cancels a repeating timer from inside its own call', () => {
    withLoop((loop) => {
      let calls = 0;
      const timer = loop.every(0, 1000, 1e9, () => { if (++calls === 3) timer.cancel(); });
      loop.run(5e6);
      assert.equal(calls, 3);
    });
  });

  it('delivers descriptor events until they are handled, and not after unwatch', () => {
    withLoop((loop) => {
      const { fd, address } = udp();
      let events = 0;
      loop.watch(fd, EPOLLIN, () => { if (++events === 3) { assert.equal(tryRecv(fd, data, 64, 0), 5); loop.stop(); } });
      trySendto(fd, data, 5, 0, address, 16);
      assert.equal(loop.run(1e9), 'stopped');
      assert.equal(events, 3, 'level-triggered');
      loop.unwatch(fd);
      trySendto(fd, data, 5, 0, address, 16);
      loop.run(loop.now() + 2e6);
      assert.equal(events, 3);
      close(fd);
    });
  });

  it('drops an event of a descriptor that was closed and reopened in the same wake-up', () => {
    withLoop((loop) => {
      const [a, b] = [udp(), udp()];
      let stale = 0;
      let reopened = -1;
      const swap = (other: number) => (): void => {
        loop.unwatch(a.fd); loop.unwatch(b.fd);
        close(other);
        reopened = udp().fd;
        assert.equal(reopened, other, 'the lowest free number is given again');
        loop.watch(reopened, EPOLLIN, () => stale++);
      };
      loop.watch(a.fd, EPOLLIN, swap(b.fd));
      loop.watch(b.fd, EPOLLIN, swap(a.fd));
      trySendto(a.fd, data, 1, 0, a.address, 16);
      trySendto(b.fd, data, 1, 0, b.address, 16);
      loop.run(3e6);
      assert.ok(reopened >= 0);
      assert.equal(stale, 0);
      close(a.fd); close(b.fd);
    });
  });

  it('handles more ready descriptors than one wake-up takes', () => {
    withLoop((loop) => {
      const sockets = Array.from({ length: 300 }, udp);
      const seen = new Set<number>();
      for (const { fd, address } of sockets) {
        trySendto(fd, data, 1, 0, address, 16);
        loop.watch(fd, EPOLLIN, () => { seen.add(fd); tryRecv(fd, data, 64, 0); });
      }
      assert.equal(loop.run(5e9, () => seen.size === 300), 'finished');
      for (const { fd } of sockets) { loop.unwatch(fd); close(fd); }
      assert.equal(loop.run(loop.now() + 1e6), 'time');
    });
  });

  it('keeps its timers while descriptors wake it, also one set anew for the time another ran at', () => {
    withLoop((loop) => {
      const { fd, address } = udp();
      let messages = 0;
      const ran: string[] = [];
      loop.watch(fd, EPOLLIN, () => {
        tryRecv(fd, data, 64, 0);
        if (++messages < 50) trySendto(fd, data, 1, 0, address, 16);
      });
      trySendto(fd, data, 1, 0, address, 16);
      loop.at(20e6, () => ran.push('20 ms'));
      assert.equal(loop.run(5e6), 'time');
      trySendto(fd, data, 1, 0, address, 16);
      assert.equal(loop.run(20e6), 'time');
      loop.at(20e6, () => ran.push('20 ms again'));
      assert.equal(loop.run(20e6), 'time');
      trySendto(fd, data, 1, 0, address, 16);
      assert.equal(loop.run(25e6), 'time');
      assert.deepEqual(ran, ['20 ms', '20 ms again']);
      assert.equal(messages, 52);
      loop.unwatch(fd);
      close(fd);
    });
  });

  it('passes an error of a callback on to its caller', () => {
    withLoop((loop) => {
      loop.at(0, () => { throw new Error('disk full'); });
      assert.throws(() => loop.run(1e6), /disk full/);
    });
  });

  it('leaves no descriptor open', () => {
    const open = (): number => fs.readdirSync('/proc/self/fd').length;
    const before = open();
    withLoop((loop) => loop.run(0));
    assert.equal(open(), before);
  });
});

describe('the event loop of the agent in virtual time', () => {
  it('reads the clock for a descriptor that wakes it only when asked for the time', () => {
    let readings = 0;
    class Counted extends Loop {
      override now(): number {
        readings++;
        return super.now();
      }
    }
    const loop = new Counted(clockNs(CLOCK_MONOTONIC), 'virtual');
    const { fd, address } = udp();
    let messages = 0;
    loop.watch(fd, EPOLLIN, () => {
      tryRecv(fd, data, 64, 0);
      if (++messages === 90) assert.ok(loop.wokeNs > 0 && loop.wokeNs === loop.wokeNs);
      if (messages < 100) trySendto(fd, data, 1, 0, address, 16);
    });
    trySendto(fd, data, 1, 0, address, 16);
    assert.equal(loop.run(1e9, () => messages === 100), 'finished');
    assert.equal(loop.wakeups, 100);
    assert.equal(readings, 2, 'as it began, and when asked');
    loop.unwatch(fd);
    close(fd);
    loop.close();
  });
});

describe('lateness of timers', () => {
  it('tells what a call of ours held up from what the machine did', () => {
    const loop = new Loop(clockNs(CLOCK_MONOTONIC) + 20e6, 'real');
    let ended = false;
    loop.at(0, () => {
      const began = loop.now(); // late itself, on a loaded machine
      loop.at(began + 5e6, () => { ended = true; });
      while (loop.now() < began + 15e6); // busy past the next timer
    });
    loop.run(60e9, () => ended);
    assert.equal(loop.lateness.count, 2);
    assert.ok(loop.lateness.maxNs >= 10e6);
    assert.ok(loop.wakeLateness.count <= 1, 'the second was due without a wait');
    loop.close();
  });
  it('gives quantiles within the width of a bucket', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1000, max: 1_000_000_000 }), { minLength: 1, maxLength: 100 }), fc.double({ min: 0.01, max: 1, noNaN: true }), (values, q) => {
        const lateness = new Lateness();
        values.forEach((value) => lateness.add(value));
        const exact = [...values].sort((a, b) => a - b)[Math.ceil(q * values.length) - 1]!;
        const told = lateness.quantile(q);
        assert.ok(told >= exact * 0.999 && told <= exact * 1.2, `${told} for ${exact}`);
      }),
    );
  });
});
