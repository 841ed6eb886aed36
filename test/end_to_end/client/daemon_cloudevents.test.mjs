// The CloudEvents SDK against the real program.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { CloudEvent, HTTP, emitterFor, httpTransport } from 'cloudevents';

import { startDaemon } from './daemon.mjs';

let daemon;
before(async () => {
  daemon = await startDaemon('');
});
after(async () => assert.equal(await daemon.stop(), 0));

const event = (id) =>
  new CloudEvent({ id, source: '/shop', type: 'order.placed.v1', subject: 'order 7', data: { number: 7, text: 'ä€😀' } });

async function post({ headers, body }) {
  const response = await fetch(`${daemon.url}/v1/events`, { method: 'POST', headers, body });
  return { status: response.status, answer: await response.json() };
}

for (const mode of ['binary', 'structured']) {
  test(`${mode}: taken once, known the second time`, async () => {
    const message = HTTP[mode](event(mode));
    const first = await post(message);
    assert.equal(first.status, 202);
    assert.deepEqual(first.answer, { state: 'accepted', source: '/shop', id: mode, conflict: false });
    const second = await post(message);
    assert.equal(second.status, 200);
    assert.match(second.answer.state, /^duplicate_/);
  });
}

test('the SDK sends by its own transport', async () => {
  const emit = emitterFor(httpTransport(`${daemon.url}/v1/events`));
  const answer = await emit(event('emitted'));
  assert.equal(JSON.parse(answer.body).state, 'accepted');
});

test('a batch answers for each event, in their order', async () => {
  const body = JSON.stringify([event('binary'), event('new')]);
  const { answer } = await post({ headers: { 'content-type': 'application/cloudevents-batch+json' }, body });
  assert.deepEqual(
    answer.results.map(({ id }) => id),
    ['binary', 'new'],
  );
  assert.match(answer.results[0].state, /^duplicate_/);
  assert.equal(answer.results[1].state, 'accepted');
});

test('what is malformed is refused with the attribute that is wrong', async () => {
  const { headers, body } = HTTP.binary(event('bad'));
  const { status, answer } = await post({ headers: { ...headers, 'ce-time': 'soon' }, body });
  assert.equal(status, 400);
  assert.match(answer.detail, /time: /);
});
