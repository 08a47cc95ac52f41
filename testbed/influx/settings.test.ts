import assert from 'node:assert/strict';
import { UserError } from '../errors.js';
import { influxSettings, redact } from './settings.js';
import { secret } from './testing.js';

describe('where InfluxDB points go', () => {
  it("comes from the client's usual environment variables, and the token leaves the environment", () => {
    const environment: NodeJS.ProcessEnv = { INFLUX_URL: 'http://lab.example:8086/', INFLUX_TOKEN: secret, INFLUX_ORG: 'o', INFLUX_BUCKET: 'b', INFLUXDB_V2_TOKEN: 'other' };
    assert.deepEqual(influxSettings(environment, { influx: { url: 'http://elsewhere:1', bucket: 'c' } }), { url: 'http://lab.example:8086', org: 'o', bucket: 'b', token: secret });
    assert.deepEqual(Object.keys(environment), ['INFLUX_URL', 'INFLUX_ORG', 'INFLUX_BUCKET']);
  });
  it('also by the names INFLUXDB_V2_…, and what is not there from testbed.config.yaml', () => {
    assert.deepEqual(influxSettings({ INFLUXDB_V2_URL: 'https://a.example/influx/', INFLUX_TOKEN: '' }, { influx: { org: 'lab', token: secret } }), { url: 'https://a.example/influx', org: 'lab', bucket: 'testbed', token: secret });
  });
  for (const [what, environment, message] of [
    ['no URL', {}, /INFLUX_URL.*testbed\.config\.yaml/],
    ['a URL that is none', { INFLUX_URL: `lab ${secret}` }, /not a URL/],
    ['another scheme', { INFLUX_URL: 'ftp://lab' }, /begins with ftp:/],
    ['a password in the URL', { INFLUX_URL: 'http://me:tok3n@lab:8086' }, /INFLUX_TOKEN=user:password/],
    ['a bucket in the URL', { INFLUX_URL: `http://lab:8086/?token=${secret}` }, /INFLUX_BUCKET/],
    ['half a token', { INFLUX_URL: 'http://lab:8086', INFLUX_TOKEN: 'tok3n \n' }, /copied whole/],
  ] as const) {
    it(`is refused with ${what}, without repeating a secret`, () => {
      assert.throws(() => influxSettings({ ...environment }, {}), (error: unknown) => error instanceof UserError && error.exitCode === 2 && message.test(error.message) && !error.message.includes('tok3n'));
    });
  }
  it('takes the token out of any text', () => {
    const text = `bad token ${secret}, ${encodeURIComponent(secret)}, Basic ${Buffer.from(secret).toString('base64')}`;
    assert.equal(redact(text, { token: secret }), 'bad token [token], [token], Basic [token]');
  });
});
