import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import fc from 'fast-check';
import { keyType, knownKeys, refusal } from './known-hosts.js';
import { formatTarget, parseTarget } from './target.js';

const blob = (type: string, body: string): Buffer => Buffer.concat([Buffer.from([0, 0, 0, type.length]), Buffer.from(type), Buffer.from(body)]);
const ed = blob('ssh-ed25519', 'one');
const line = (names: string, key = ed): string => `${names} ${keyType(key)} ${key.toString('base64')} a comment`;

describe('known_hosts', () => {
  it('finds a host by its name, a pattern, its port and a hash', () => {
    const salt = Buffer.from('0123456789abcdefghij');
    const hashed = `|1|${salt.toString('base64')}|${createHmac('sha1', salt).update('[lab]:2222').digest('base64')}`;
    for (const [names, host, port, found] of [
      ['lab', 'lab', 22, 1], ['lab', 'LAB', 22, 1], ['lab', 'lab', 2222, 0], ['[lab]:2222', 'lab', 2222, 1], ['a,lab', 'lab', 22, 1], ['*.example', 'x.example', 22, 1],
      ['*.example,!x.example', 'x.example', 22, 0], ['l?b', 'lab', 22, 1], ['l.b', 'lab', 22, 0], [hashed, 'lab', 2222, 1], [hashed, 'lab', 22, 0],
    ] as const) {
      assert.equal(knownKeys(`# comment\n\n${line(names)}\nnonsense\n`, host, port).length, found, `${names} ${host} ${port}`);
    }
  });

  it('accepts the known key alone, and says what to do about any other', () => {
    const known = knownKeys([line('lab'), `@revoked ${line('lab', blob('ssh-ed25519', 'old'))}`, `@cert-authority ${line('lab', blob('ssh-ed25519', 'ca'))}`].join('\n'), 'lab', 22);
    assert.equal(refusal(known, ed, 'lab', 22), null);
    assert.match(refusal(known, blob('ssh-ed25519', 'other'), 'lab', 22)!.message, /NOT the one in known_hosts.*ssh-keygen -R 'lab'/);
    assert.match(refusal(known, blob('ssh-ed25519', 'old'), 'lab', 22)!.message, /@revoked/);
    assert.match(refusal(known, blob('ssh-rsa', 'x'), 'lab', 22)!.message, /not in known_hosts.*ssh-keyscan -t rsa lab/);
    assert.match(refusal([], ed, 'lab', 2222)!.message, /ssh-keyscan -t ed25519 -p 2222 lab/);
  });

  it('survives any text', () => {
    fc.assert(fc.property(fc.string(), fc.string(), (text, host) => { knownKeys(`${text}\n|1|${text}|\n${host} ${text} ${text}`, host, 22); }));
  });
});

describe('an ssh target', () => {
  it('is written ssh://user@host:port', () => {
    assert.deepEqual(parseTarget('//me@lab'), { user: 'me', host: 'lab', port: 22 });
    assert.deepEqual(parseTarget('//me@lab.example:2222/'), { user: 'me', host: 'lab.example', port: 2222 });
    assert.deepEqual(parseTarget('//me@[fe80::1]:23'), { user: 'me', host: 'fe80::1', port: 23 });
    assert.equal(formatTarget({ user: 'me', host: 'fe80::1', port: 23 }), 'ssh://me@[fe80::1]:23');
    assert.equal(formatTarget(parseTarget('//me@lab')), 'ssh://me@lab');
  });

  for (const text of ['', '//', 'me@lab', '//me:secret@lab', '//me@lab:0', '//me@lab:70000', '//me@-oProxyCommand=x', '//me@lab/path', '//a b@lab', '//me@$(x)']) {
    it(`is refused as ${JSON.stringify(text)}`, () => assert.throws(() => parseTarget(text), /expected ssh:\/\/user@host/));
  }
});
