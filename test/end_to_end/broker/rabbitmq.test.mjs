// amqplib on the other side of RabbitMQ: what it publishes comes into the inbox, what the outbox holds comes to it.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';

import amqp from 'amqplib';
import { CloudEvent, HTTP } from 'cloudevents';

import { metric, stored } from './ask.mjs';
import { startDaemon } from './daemon.mjs';

const url = process.env.TWINBOX_TEST_RABBITMQ;
const name = `twinbox_node.${randomUUID()}`;
const [into, out, exchange] = [`${name}.in`, `${name}.out`, `${name}.events`];
let daemon, connection, channel;

before(async () => {
  assert.ok(url, 'TWINBOX_TEST_RABBITMQ is not set: tool/brokers start <folder>, then source <folder>/env');
  connection = await amqp.connect(url);
  channel = await connection.createConfirmChannel();
  await channel.assertExchange(exchange, 'topic');
  await channel.assertQueue(out);
  for (const topic of ['order.#', 'invoice.#']) await channel.bindQueue(out, exchange, topic);
  daemon = await startDaemon(
    `
[sink.rabbit]
type = "rabbitmq"
url = "env:BROKER"
exchange = "${exchange}"

[[route]]
topic = "order.#"
sink = "rabbit"

[sink.whole]
type = "rabbitmq"
url = "env:BROKER"
exchange = "${exchange}"
form = "structured"

[[route]]
topic = "invoice.#"
sink = "whole"

[source.rabbit]
type = "rabbitmq"
url = "env:BROKER"
queue = "${into}"
bindings = ["${exchange} stock.*"]
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
  for (const queue of [into, out, `${into}.dead`]) await channel.deleteQueue(queue);
  await channel.deleteExchange(exchange);
  await connection.close();
});

/** The next message of a queue, waited for. */
function next(queue) {
  return new Promise((resolve) => {
    const tag = randomUUID();
    channel.consume(
      queue,
      (message) => {
        channel.ack(message);
        channel.cancel(tag).then(() => resolve(message));
      },
      { consumerTag: tag, prefetch: 1 },
    );
  });
}

test('what is enqueued over HTTP comes to amqplib with its id and attributes', async () => {
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
  const message = await next(out);
  assert.equal(message.content.toString(), 'größe 1');
  assert.equal(message.fields.routingKey, 'order.placed');
  assert.equal(message.properties.messageId, 'order-1');
  assert.equal(message.properties.type, 'order.placed');
  assert.equal(message.properties.correlationId, 'story');
  assert.equal(message.properties.contentType, 'text/plain');
  assert.equal(message.properties.deliveryMode, 2);
  assert.equal(message.properties.headers['twinbox-partition-key'], 'customer');
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
  const { properties, content } = await next(out);
  const attributes = Object.fromEntries(
    Object.entries(properties.headers)
      .filter(([key]) => key.startsWith('cloudEvents_'))
      .map(([key, value]) => [key.slice('cloudEvents_'.length), value]),
  );
  const event = new CloudEvent({ ...attributes, datacontenttype: properties.contentType, data: JSON.parse(content) });
  assert.ok(event.validate());
  assert.equal(event.id, 'event-1');
  assert.deepEqual(event.data, { number: 7 });
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
  const { properties, content } = await next(out);
  const event = HTTP.toEvent({ headers: { 'content-type': properties.contentType }, body: content.toString() });
  assert.ok(event.validate());
  assert.equal(event.id, 'event-2');
  assert.equal(event.subject, 'ä€😀');
  assert.deepEqual(event.data, { number: 8 });
});

test('what amqplib publishes comes into the inbox, once', async () => {
  const options = { messageId: 'stock-1', contentType: 'text/plain', appId: 'warehouse', headers: { color: 'blue' } };
  for (let i = 0; i < 2; ++i) channel.publish(exchange, 'stock.low', Buffer.from('7 left'), options);
  await channel.waitForConfirms();
  const message = await stored(daemon, 'stock-1');
  assert.equal(message.source, 'warehouse');
  assert.equal(message.topic, 'stock.low');
  assert.match(JSON.stringify(message), /blue/);
  await metric(daemon, /outcome="duplicate"[^\n]* 1$/m);
});

test('CloudEvents of the SDK come into the inbox, binary and structured', async () => {
  const event = (id) =>
    new CloudEvent({ id, source: '/warehouse', type: 'stock.empty', subject: 'ä€😀', data: { left: 0 } });
  channel.publish(exchange, 'stock.x', Buffer.from(JSON.stringify(event('structured'))), {
    contentType: 'application/cloudevents+json',
  });
  const { data, datacontenttype, ...attributes } = event('binary').toJSON();
  channel.publish(exchange, 'stock.x', Buffer.from(JSON.stringify(data)), {
    contentType: datacontenttype ?? 'application/json',
    headers: Object.fromEntries(Object.entries(attributes).map(([key, value]) => [`cloudEvents:${key}`, value])),
  });
  for (const id of ['structured', 'binary']) {
    const message = await stored(daemon, id);
    assert.equal(message.source, '/warehouse');
    assert.equal(message.topic, 'stock.empty');
  }
});

test('what is no message becomes a dead letter that says why', async () => {
  channel.publish(exchange, 'stock.low', Buffer.from('without an id'));
  const dead = await next(`${into}.dead`);
  assert.equal(dead.content.toString(), 'without an id');
  assert.match(dead.properties.headers['twinbox-error'], /no id/);
  assert.equal(dead.properties.headers['twinbox-queue'], into);
});

test('the metrics tell of the source', () => metric(daemon, /twinbox_source_up\{source="rabbit"\} 1/));
