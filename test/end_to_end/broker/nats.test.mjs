// The client `nats` on the other side of JetStream: what it publishes comes into the inbox, what the outbox holds comes to it.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';

import { CloudEvent, HTTP } from 'cloudevents';
import { AckPolicy, connect, headers, nanos } from 'nats';

import { metric, stored } from './ask.mjs';
import { startDaemon } from './daemon.mjs';

const url = process.env.TWINBOX_TEST_NATS;
const name = `twinbox_node_${randomUUID().replaceAll('-', '')}`;
const [into, out] = [`${name}_in`, `${name}_out`];
let daemon, connection, stream, manager;

before(async () => {
  assert.ok(url, 'TWINBOX_TEST_NATS is not set: tool/brokers start <folder>, then source <folder>/env');
  const { hostname, port, username, password } = new URL(url);
  connection = await connect({ servers: `${hostname}:${port}`, user: username, pass: password });
  stream = connection.jetstream();
  manager = await connection.jetstreamManager();
  await manager.streams.add({ name: out, subjects: [`${out}.>`] });
  await manager.consumers.add(out, { durable_name: 'node', ack_policy: AckPolicy.Explicit });
  daemon = await startDaemon(
    `
[sink.nats]
type = "nats"
url = "env:BROKER"
stream = "${out}"
subject_prefix = "${out}."

[[route]]
topic = "order.#"
sink = "nats"

[sink.whole]
type = "nats"
url = "env:BROKER"
stream = "${out}"
subject_prefix = "${out}."
form = "structured"

[[route]]
topic = "invoice.#"
sink = "whole"

[source.nats]
type = "nats"
url = "env:BROKER"
stream = "${into}"
subjects = ["${into}.>"]
consumer = "box"
filter = "${into}.stock.*"
topology = "declare"
max_retries = 1
delay = "1ms"
`,
    { BROKER: url },
  );
  await daemon.waitFor(/broker_connected .*source=/);
});
after(async () => {
  assert.equal(await daemon.stop(), 0);
  for (const one of [into, out, `${into}_dead`]) await manager.streams.delete(one);
  await connection.close();
});

/** The next message of a consumer, waited for. */
async function next(of, consumer) {
  const message = await (await stream.consumers.get(of, consumer)).next({ expires: 60_000 });
  assert.ok(message);
  message.ack();
  return message;
}

function headersOf(values) {
  const made = headers();
  for (const [key, value] of Object.entries(values)) made.set(key, String(value));
  return made;
}

test('what is enqueued over HTTP comes to the client with its id and attributes', async () => {
  const response = await fetch(`${daemon.url}/v1/outbox/order.placed`, {
    method: 'POST',
    headers: {
      'Content-Type': 'text/plain',
      'Idempotency-Key': 'order-1',
      'Twinbox-Correlation-Id': 'story',
      'Twinbox-Partition-Key': 'customer',
    },
    body: 'größe 1',
  });
  assert.equal(response.status, 202);
  const message = await next(out, 'node');
  assert.equal(message.string(), 'größe 1');
  assert.equal(message.subject, `${out}.order.placed`);
  assert.equal(message.headers.get('Nats-Msg-Id'), 'order-1');
  assert.equal(message.headers.get('Content-Type'), 'text/plain');
  assert.equal(message.headers.get('twinbox-topic'), 'order.placed');
  assert.equal(message.headers.get('twinbox-correlation-id'), 'story');
  assert.equal(message.headers.get('twinbox-partition-key'), 'customer');
});

test('an event travels as a binary CloudEvent', async () => {
  const response = await fetch(`${daemon.url}/v1/outbox/order.shipped`, {
    method: 'POST',
    headers: {
      'ce-specversion': '1.0',
      'ce-id': 'event-1',
      'ce-source': '/shop',
      'ce-type': 'order.shipped',
      'Content-Type': 'application/json',
    },
    body: '{"number":7}',
  });
  assert.equal(response.status, 202);
  const message = await next(out, 'node');
  // As over HTTP, where the SDK reads it.
  const all = Object.fromEntries(message.headers.keys().map((key) => [key.toLowerCase(), message.headers.get(key)]));
  delete all['ce-datacontenttype'];
  const event = HTTP.toEvent({ headers: all, body: message.string() });
  assert.ok(event.validate());
  assert.equal(event.id, 'event-1');
  assert.deepEqual(event.data, { number: 7 });
  assert.equal(message.headers.get('ce-datacontenttype'), 'application/json');
});

test('an event travels as a structured CloudEvent where that is asked for', async () => {
  const response = await fetch(`${daemon.url}/v1/outbox/invoice.sent`, {
    method: 'POST',
    headers: {
      'ce-specversion': '1.0',
      'ce-id': 'event-2',
      'ce-source': '/shop',
      'ce-type': 'invoice.sent',
      'ce-subject': encodeURIComponent('ä€😀'),
      'Content-Type': 'application/json',
    },
    body: '{"number":8}',
  });
  assert.equal(response.status, 202);
  const message = await next(out, 'node');
  const event = HTTP.toEvent({
    headers: { 'content-type': message.headers.get('Content-Type') },
    body: message.string(),
  });
  assert.ok(event.validate());
  assert.equal(event.id, 'event-2');
  assert.equal(event.subject, 'ä€😀');
  assert.deepEqual(event.data, { number: 8 });
});

test('what the client publishes comes into the inbox, once', async () => {
  const values = { 'Content-Type': 'text/plain', 'twinbox-id': 'stock-1', 'twinbox-source': 'warehouse', color: 'blue' };
  for (let i = 0; i < 2; ++i) {
    await stream.publish(`${into}.stock.low`, '7 left', { headers: headersOf(values) });
  }
  const message = await stored(daemon, 'stock-1');
  assert.equal(message.source, 'warehouse');
  assert.equal(message.topic, `${into}.stock.low`);
  assert.match(JSON.stringify(message), /blue/);
  await metric(daemon, /outcome="duplicate"[^\n]* 1$/m);
});

test('the id for the stream is an id for the inbox', async () => {
  const answer = await stream.publish(`${into}.stock.low`, '6 left', { msgID: 'stock-2' });
  assert.equal(answer.duplicate, false);
  assert.equal((await stored(daemon, 'stock-2')).source, 'nats');
});

test('CloudEvents of the SDK come into the inbox, binary and structured', async () => {
  const event = (id) =>
    new CloudEvent({ id, source: '/warehouse', type: 'stock.empty', subject: 'a%20b', data: { left: 0 } });
  // The binding knows the event alone; others say what it is.
  await stream.publish(`${into}.stock.x`, JSON.stringify(event('bare')));
  const structured = HTTP.structured(event('structured'));
  await stream.publish(`${into}.stock.x`, structured.body, { headers: headersOf(structured.headers) });
  const binary = HTTP.binary(event('binary'));
  await stream.publish(`${into}.stock.x`, binary.body, { headers: headersOf(binary.headers) });
  for (const id of ['bare', 'structured', 'binary']) {
    const message = await stored(daemon, id);
    assert.equal(message.source, '/warehouse');
    assert.equal(message.topic, 'stock.empty');
  }
});

test('what is no message becomes a dead letter that says why', async () => {
  await manager.consumers.add(`${into}_dead`, { durable_name: 'node', ack_wait: nanos(30_000), ack_policy: AckPolicy.Explicit });
  await stream.publish(`${into}.stock.low`, 'without an id');
  const dead = await next(`${into}_dead`, 'node');
  assert.equal(dead.string(), 'without an id');
  assert.match(decodeURIComponent(dead.headers.get('twinbox-error')), /no id/);
  assert.equal(dead.headers.get('twinbox-subject'), `${into}.stock.low`);
});

test('the metrics tell of the source', () => metric(daemon, /twinbox_source_up\{source="nats"\} 1/));
