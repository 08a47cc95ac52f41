import assert from 'node:assert/strict';
import { Place } from '../testing/command.js';
import { readConfig } from './config.js';

describe('testbed.config.yaml', () => {
  const place = new Place();
  after(() => place.remove());
  const refused = (text: string): string => {
    try {
      readConfig(place.write('testbed.config.yaml', text));
    } catch (error) {
      return (error as Error).message.replaceAll(place.path('testbed.config.yaml'), 'FILE');
    }
    return 'accepted';
  };

  it('says of each mistake where it is and what would be accepted', () => {
    assert.equal(refused('machines:\n  x: { ssh: 5 }\n  y: { machine: local, hosts: vm }\n'), 'FILE: machines.x.ssh: expected text\nFILE: machines.y.hosts: expected netns or docker');
    assert.equal(refused('machines: { y: { machine: local, node_: /usr/bin/node } }'), 'FILE: machines.y: unknown key "node_"; expected ssh, key, node, machine, hosts, clock, queues');
    assert.equal(refused('machine: { a: 1 }'), 'FILE: the file: unknown key "machine"; expected machines, influx');
    assert.equal(refused('influx: { URL: x }'), 'FILE: influx: unknown key "URL"; expected url, org, bucket, token');
    assert.equal(refused('machines: [a]'), 'FILE: machines: expected a map of keys and values');
    assert.match(refused('machines: { all: { machine: local } }'), /^FILE: machines\.all: expected another name/);
    assert.match(refused('machines: {'), /^FILE:1: /);
  });

  it('says that it is a folder, or is not there', () => {
    assert.throws(() => readConfig(place.folder), /this is a folder; a file is expected/);
    assert.throws(() => readConfig(place.path('none.yaml')), /none\.yaml: there is no such file, but TESTBED_CONFIG names it/);
  });
});
