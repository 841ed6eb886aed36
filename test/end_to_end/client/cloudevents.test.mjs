// What the CloudEvents SDK writes, we read; what we write, it reads.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';

import { CloudEvent, HTTP } from 'cloudevents';

import { startDriver } from './driver.mjs';

const driver = startDriver();
after(() => driver.stop());

const examples = [
  { id: '1', source: '/shop', type: 'order.placed.v1' },
  {
    id: 'A234-1234-1234',
    source: 'https://github.com/cloudevents/spec/pull',
    type: 'com.github.pull_request.opened',
    subject: '123',
    time: '2018-04-05T17:31:00.000Z',
    dataschema: 'https://example.com/schema',
    datacontenttype: 'application/json',
    partitionkey: 'customer-7',
    traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
    data: { number: 7, nested: { list: [1, 2.5, null, true], text: 'ä€😀' } },
  },
  { id: '2', source: '/shop', type: 't', datacontenttype: 'text/plain', data: 'plain text, ä€😀' },
  { id: '3', source: '/shop', type: 't', datacontenttype: 'application/json', data: [] },
];

// The SDK fills in a time; the JSON of an event is what both sides are compared by.
const asJson = (event) => JSON.parse(JSON.stringify(event));
const request = (message) => ({ headers: message.headers, body: message.body ?? '' });

async function read(message) {
  const answer = await driver.ask({ act: 'read', ...request(message) });
  assert.equal(answer.error, undefined);
  return answer.events;
}

async function write(mode, events) {
  const answer = await driver.ask({ act: 'write', mode, events: events.map(asJson) });
  assert.equal(answer.error, undefined);
  // The SDK takes an empty text for data; a server that has no body gives it none.
  return { headers: answer.headers, body: answer.body || undefined };
}

// The SDK leaves the header out where an event has no content type; the JSON format means JSON then.
const comparable = ({ datacontenttype, ...rest }) => rest;

for (const mode of ['binary', 'structured']) {
  for (const example of examples) {
    test(`${mode}: event ${example.id} from the SDK to us`, async () => {
      const event = new CloudEvent(example);
      const [ours] = await read(HTTP[mode](event));
      assert.deepEqual(comparable(ours), comparable(asJson(event)));
      if (example.datacontenttype) assert.match(ours.datacontenttype, new RegExp(`^${example.datacontenttype}`));
    });

    test(`${mode}: event ${example.id} from us to the SDK`, async () => {
      const event = new CloudEvent(example);
      const theirs = HTTP.toEvent(await write(mode, [event]));
      assert.deepEqual(comparable(asJson(theirs)), comparable(asJson(event)));
    });
  }
}

test('bytes: from the SDK to us and back', async () => {
  const event = new CloudEvent({
    id: '4',
    source: '/shop',
    type: 't',
    datacontenttype: 'application/octet-stream',
    data: Uint8Array.from([0, 255, 16, 32]),
  });
  const [ours] = await read(HTTP.structured(event));
  assert.equal(ours.data_base64, 'AP8QIA==');
  const theirs = HTTP.toEvent(await write('structured', [ours]));
  assert.equal(theirs.data_base64, 'AP8QIA==');
});

test('batch: from us to the SDK and back', async () => {
  const events = examples.map((example) => new CloudEvent(example));
  const message = await write('batch', events);
  const theirs = HTTP.toEvent(message);
  assert.deepEqual(theirs.map(asJson), events.map(asJson));
  const again = await read({ headers: message.headers, body: JSON.stringify(theirs) });
  assert.deepEqual(again, events.map(asJson));
});

test('what the SDK would not make, we refuse and say why', async () => {
  const answer = await driver.ask({ act: 'read', headers: { 'ce-specversion': '1.0', 'ce-id': '1' }, body: '' });
  assert.match(answer.error, /^source: /);
});
