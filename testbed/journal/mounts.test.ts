/** Mount points as the kernel walks to them. */

import assert from 'node:assert/strict';
import { mountAt, readMounts } from './mounts.js';

const line = (id: number, parent: number, path: string, optional = ''): string => `${id} ${parent} 0:${id} / ${path} rw,relatime ${optional === '' ? '' : `${optional} `}- tmpfs tmpfs rw`;
const at = (path: string, ...lines: readonly string[]): string | null => mountAt(path, readMounts(`${lines.join('\n')}\n`))?.id ?? null;

describe('mounts', () => {
  it('are found where they are', () => {
    const lines = [line(20, 1, '/'), line(21, 20, '/run'), line(22, 21, '/run/netns', 'shared:5'), line(23, 20, String.raw`/a\040b`)];
    assert.equal(at('/', ...lines), '20');
    assert.equal(at('/run/netns', ...lines), '22');
    assert.equal(at('/a b', ...lines), '23');
    assert.equal(at('/run/other', ...lines), null);
    assert.equal(at('/runs', ...lines), null);
  });
  it('are not there when a folder above was mounted over since', () => {
    assert.equal(at('/run/netns', line(20, 1, '/'), line(22, 20, '/run/netns'), line(30, 20, '/run')), null);
    assert.equal(at('/run/netns', line(20, 1, '/'), line(22, 20, '/run/netns'), line(30, 20, '/run'), line(31, 30, '/run/netns')), '31');
  });
  it('stack: the last one is seen', () => {
    assert.equal(at('/run', line(20, 1, '/'), line(21, 20, '/run'), line(24, 21, '/run')), '24');
  });
  it('say whether other mount namespaces share them', () => {
    assert.deepEqual(readMounts([line(20, 1, '/'), line(21, 20, '/run', 'shared:5 master:2'), line(22, 20, '/x', 'master:2')].join('\n')).map(({ shared }) => shared), [false, true, false]);
  });
  it('of this machine have a root', () => {
    assert.notEqual(mountAt('/'), null);
    assert.notEqual(mountAt('/proc'), null);
  });
});
