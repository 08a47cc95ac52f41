import assert from 'node:assert/strict';
import { failedRunners, lastComplaint } from './flent-log.js';

// flent 2.1.1's words, its commands shortened.
const text = `Starting Flent 2.1.1 using Python 3.11.2.
Starting rrul test. Expected run time: 5 seconds.
WARNING: Program exited non-zero.
Runner class: IrttRunner
Command: /usr/bin/irtt client -o - -d 5s -i 0.05s -4  --local=10.1.0.2:9001  10.2.0.2:9001
Return code: 1
Stdout: 
Stderr: Error: read udp4 10.1.0.2:9001->10.2.0.2:9001: read: connection refused

WARNING: Program exited non-zero.
Runner class: NetperfDemoRunner
Command: /usr/bin/netperf -P 0 -H 10.2.0.2 -p 1865 -t SCTP_RR -l 10
Return code: 1
Stdout: The test you requested (SCTP_RR) is unknown to this netperf.
Please verify that you have the correct test name.

Stderr: 
WARNING: Unable to parse irtt JSON output: Expecting value: line 1 column 1 (char 0)
`;

describe('what flent says', () => {
  it('is read as the programs that failed and their own words', () => {
    assert.deepEqual(failedRunners(text).map(({ command, said }) => [command.split(' ')[0], said]), [
      ['/usr/bin/irtt', 'Error: read udp4 10.1.0.2:9001->10.2.0.2:9001: read: connection refused'],
      ['/usr/bin/netperf', 'The test you requested (SCTP_RR) is unknown to this netperf. Please verify that you have the correct test name'],
    ]);
    assert.deepEqual(failedRunners('Starting Flent 2.1.1\nData file written to ./x.flent.gz\n'), []);
  });

  it('ends with its last complaint, or its last words where it has none', () => {
    assert.match(lastComplaint(text), /^WARNING: Unable to parse irtt JSON output/);
    assert.equal(lastComplaint('one\ntwo\n'), 'two');
    assert.equal(lastComplaint(''), '');
  });
});
