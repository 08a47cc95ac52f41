import assert from 'node:assert/strict';
import { iperf3ArgumentsProblem } from './iperf3-arguments.js';

describe("a user's iperf3 arguments", () => {
  it('may change how it sends', () => {
    for (const args of [[], ['--set-mss', '1000'], ['-w', '1M', '-N'], ['--set-mss=1000'], ['-Z']]) assert.equal(iperf3ArgumentsProblem(args), null, args.join(' '));
  });
  it('may not change what the plan says of direction, streams, length, protocol, port or output', () => {
    for (const args of [['-R'], ['--reverse'], ['--rev'], ['--bidir'], ['-P', '4'], ['-P4'], ['-4R'], ['-u'], ['-t', '1'], ['-n', '1'], ['-s'], ['-p', '80'], ['-J'], ['--logfile', 'x'], ['-F', 'x'], ['-C', 'bbr'], ['-O', '1'], ['file']]) {
      assert.match(iperf3ArgumentsProblem(args) ?? '', /may be added/, args.join(' '));
    }
  });
  it('need their values', () => {
    assert.match(iperf3ArgumentsProblem(['-w']) ?? '', /needs a value/);
    assert.match(iperf3ArgumentsProblem(['-w', '-N']) ?? '', /needs a value/);
    assert.match(iperf3ArgumentsProblem(['--no-delay=1']) ?? '', /takes no value/);
  });
});
