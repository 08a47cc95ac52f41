import assert from 'node:assert/strict';
import fc from 'fast-check';
import { Actor, EventQueue, before } from './events.js';

class Once extends Actor {
  constructor(private readonly log: number[], private readonly name: number) { super(); }
  override fire(): void { this.log.push(this.name); }
}

describe('The event queue', () => {
  it('fires in order of time, and at equal times in the order of scheduling, whatever was rescheduled and cancelled', () => {
    fc.assert(fc.property(fc.array(fc.record({ actor: fc.nat(40), time: fc.nat(20), cancel: fc.boolean() }), { maxLength: 300 }), (steps) => {
      const queue = new EventQueue();
      const log: number[] = [];
      const actors = Array.from({ length: 41 }, (_, i) => new Once(log, i));
      for (const actor of actors) queue.add(actor);
      const model = new Map<number, readonly [number, number]>();
      steps.forEach(({ actor, time, cancel }, order) => {
        if (cancel) { queue.cancel(actors[actor]!.actorId); model.delete(actor); } else { queue.schedule(actors[actor]!.actorId, time); model.set(actor, [time, order]); }
      });
      queue.run(100);
      assert.deepEqual(log, [...model].sort(([, a], [, b]) => a[0] - b[0] || a[1] - b[1]).map(([name]) => name));
    }));
  });

  it('lets an actor schedule itself again while it fires, and drops the event when it does not', () => {
    const queue = new EventQueue();
    const times: number[] = [];
    class Ticker extends Actor {
      override fire(): void { times.push(queue.now); if (queue.now < 30) queue.schedule(this.actorId, queue.now + 10); }
    }
    const ticker = new Ticker();
    queue.add(ticker);
    queue.schedule(ticker.actorId, 10);
    queue.run(1000);
    assert.deepEqual(times, [10, 20, 30]);
    assert.equal(queue.pending(ticker.actorId), false);
  });

  it('fires plan events, AQM timers and samplers before anything else of the same instant', () => {
    const queue = new EventQueue();
    const log: number[] = [];
    const actors = [0, 1, 2, 3].map((i) => new Once(log, i));
    for (const actor of actors) queue.add(actor);
    queue.schedule(actors[0]!.actorId, 5);
    queue.scheduleOrdered(actors[1]!.actorId, 5, before.sampler);
    queue.scheduleOrdered(actors[2]!.actorId, 5, before.aqmTimer);
    queue.scheduleOrdered(actors[3]!.actorId, 5, before.planEvent);
    queue.run(5);
    assert.deepEqual(log, [3, 2, 1, 0]);
  });
});
