// KafkaJS on the other side of a cluster: what it produces comes into the inbox, what the outbox holds comes to it. The
// cluster is librdkafka's mock, in a process of its own, or the one that TWINBOX_TEST_KAFKA names.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';

import { CloudEvent, HTTP } from 'cloudevents';
import { Kafka, logLevel, Partitioners } from 'kafkajs';

import { metric, stored } from './ask.mjs';
import { startDaemon } from './daemon.mjs';

const name = `twinbox_node.${randomUUID()}`;
const [into, out, dead] = [`${name}.in`, `${name}.out`, `${name}.in.dead`];
let mock, daemon, client, producer;

/** Where the cluster is. */
async function startCluster() {
  if (process.env.TWINBOX_TEST_KAFKA) return process.env.TWINBOX_TEST_KAFKA;
  mock = spawn(process.env.TWINBOX_KAFKA_MOCK, [into, out, dead], { stdio: ['pipe', 'pipe', 'inherit'] });
  for await (const line of createInterface({ input: mock.stdout })) return line;
}

before(async () => {
  const brokers = await startCluster();
  client = new Kafka({ brokers: brokers.split(','), logLevel: logLevel.NOTHING });
  producer = client.producer({ createPartitioner: Partitioners.DefaultPartitioner });
  await producer.connect();
  daemon = await startDaemon(
    `
[sink.kafka]
type = "kafka"
url = "env:BROKERS"
topic = "${out}"

[[route]]
topic = "order.#"
sink = "kafka"

[sink.whole]
type = "kafka"
url = "env:BROKERS"
topic = "${out}"
form = "structured"

[[route]]
topic = "invoice.#"
sink = "whole"

[source.kafka]
type = "kafka"
url = "env:BROKERS"
topics = ["${into}"]
group = "${name}"
max_retries = 1
delay = "1ms"
`,
    { BROKERS: brokers },
  );
  await daemon.waitFor(/broker_connected .*source=/);
});
after(async () => {
  assert.equal(await daemon.stop(), 0);
  await producer.disconnect();
  mock?.stdin.end();
});

/** The records of a topic from its beginning, until one satisfies `wanted`. */
async function find(topic, wanted) {
  const consumer = client.consumer({ groupId: randomUUID(), sessionTimeout: 6000, rebalanceTimeout: 6000 });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  const found = await new Promise((resolve) => {
    consumer.run({
      eachMessage: async ({ message }) => {
        const headers = Object.fromEntries(
          Object.entries(message.headers).map(([key, value]) => [key, value.toString()]),
        );
        const record = { key: message.key?.toString(), value: message.value.toString(), headers };
        if (wanted(record)) resolve(record);
      },
    });
  });
  await consumer.disconnect();
  return found;
}

test('what is enqueued over HTTP comes to KafkaJS with its id, its key and its attributes', async () => {
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
  const { key, value, headers } = await find(out, ({ headers }) => headers['twinbox-id'] === 'order-1');
  assert.equal(key, 'customer');
  assert.equal(value, 'größe 1');
  assert.equal(headers['twinbox-topic'], 'order.placed');
  assert.equal(headers['twinbox-correlation-id'], 'story');
  assert.equal(headers['content-type'], 'text/plain');
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
  const { value, headers } = await find(out, ({ headers }) => headers.ce_id === 'event-1');
  const attributes = Object.fromEntries(
    Object.entries(headers)
      .filter(([key]) => key.startsWith('ce_'))
      .map(([key, text]) => [key.slice('ce_'.length), text]),
  );
  const event = new CloudEvent({ ...attributes, datacontenttype: headers['content-type'], data: JSON.parse(value) });
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
  const { value, headers } = await find(out, ({ value }) => value.includes('event-2'));
  const event = HTTP.toEvent({ headers: { 'content-type': headers['content-type'] }, body: value });
  assert.ok(event.validate());
  assert.equal(event.id, 'event-2');
  assert.equal(event.subject, 'ä€😀');
  assert.deepEqual(event.data, { number: 8 });
});

test('what KafkaJS produces comes into the inbox, once', async () => {
  const message = { key: 'k', value: '7 left', headers: { 'twinbox-id': 'stock-1', color: 'blue' } };
  await producer.send({ topic: into, messages: [message, message] });
  const found = await stored(daemon, 'stock-1');
  assert.equal(found.source, 'kafka');
  assert.equal(found.topic, into);
  assert.match(JSON.stringify(found), /blue/);
  await metric(daemon, /outcome="duplicate"[^\n]* 1$/m);
});

test('CloudEvents of the SDK come into the inbox, binary and structured', async () => {
  const event = (id) =>
    new CloudEvent({ id, source: '/warehouse', type: 'stock.empty', subject: 'ä€😀', data: { left: 0 } });
  const { data, datacontenttype, ...attributes } = event('binary').toJSON();
  const headers = Object.fromEntries(
    Object.entries(attributes)
      .filter(([, value]) => value !== undefined)
      .map(([key, value]) => [`ce_${key}`, value]),
  );
  await producer.send({
    topic: into,
    messages: [
      {
        value: JSON.stringify(event('structured')),
        headers: { 'content-type': 'application/cloudevents+json; charset=UTF-8' },
      },
      { value: JSON.stringify(data), headers: { 'content-type': datacontenttype ?? 'application/json', ...headers } },
    ],
  });
  for (const id of ['structured', 'binary']) {
    const message = await stored(daemon, id);
    assert.equal(message.source, '/warehouse');
    assert.equal(message.topic, 'stock.empty');
  }
});

test('what is no message becomes a dead letter that says why', async () => {
  await producer.send({ topic: into, messages: [{ value: 'damaged', headers: { ce_id: 'x' } }] });
  const { value, headers } = await find(dead, ({ value }) => value === 'damaged');
  assert.equal(value, 'damaged');
  assert.ok(headers['twinbox-error']);
  assert.ok(headers['twinbox-origin'].startsWith(`${into}/0/`));
});

test('the metrics tell of the source', () => metric(daemon, /twinbox_source_up\{source="kafka"\} 1/));
