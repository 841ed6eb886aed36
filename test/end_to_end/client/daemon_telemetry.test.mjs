// What others read of the daemon: spans by the schema of OpenTelemetry, metrics by a parser of Prometheus' text format.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';

import schema from '@opentelemetry/otlp-transformer/build/src/generated/root.js';
import parsePrometheus from 'parse-prometheus-text-format';

import { startDaemon } from './daemon.mjs';

const { ExportTraceServiceRequest } = schema.opentelemetry.proto.collector.trace.v1;
const idFields = new Set(['traceId', 'spanId', 'parentSpanId']);

/** A server that keeps what is posted to it. */
async function listen() {
  const requests = [];
  const waiting = new Set();
  const server = createServer((request, response) => {
    const parts = [];
    request.on('data', (part) => parts.push(part));
    request.on('end', () => {
      requests.push({ url: request.url, headers: request.headers, body: Buffer.concat(parts).toString() });
      response.end();
      waiting.forEach((look) => look());
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    requests,
    /** The first of `find(requests)` that is something. */
    until(find) {
      return new Promise((resolve) => {
        const look = () => {
          const found = find(requests);
          if (found === undefined) return;
          waiting.delete(look);
          resolve(found);
        };
        waiting.add(look);
        look();
      });
    },
    close: () => (server.closeAllConnections(), server.close()),
  };
}

/** In OTLP's JSON the ids are hexadecimal, where JSON of protobuf has base64: `change` says which way. */
function withIds(value, change) {
  if (Array.isArray(value)) return value.map((one) => withIds(one, change));
  if (value === null || typeof value !== 'object' || value instanceof Uint8Array) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => [name, idFields.has(name) ? change(one) : withIds(one, change)]),
  );
}

let daemon, receiver, collector;
before(async () => {
  [receiver, collector] = [await listen(), await listen()];
  daemon = await startDaemon(`
[sink.there]
type = "http"
url = "${receiver.url}/hook"
allow = ["127.0.0.1"]
[[route]]
sink = "there"
[tracing]
endpoint = "${collector.url}/v1/traces"
[dispatch]
poll_interval = "20ms"
`);
});
after(async () => {
  assert.equal(await daemon.stop(), 0);
  receiver.close();
  collector.close();
});

async function enqueue() {
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  const headers = { traceparent, tracestate: 'a=b', 'content-type': 'text/plain' };
  const answer = await fetch(`${daemon.url}/v1/outbox/order.placed`, { method: 'POST', headers, body: 'x' });
  assert.equal(answer.status, 202);
}

const spansOf = (requests) =>
  requests.flatMap(({ body }) => JSON.parse(body).resourceSpans.flatMap((r) => r.scopeSpans.flatMap((s) => s.spans)));

test('spans say nothing that the schema of OTLP does not know, and hang together', async () => {
  await enqueue();
  const received = await receiver.until((requests) => requests[0]);
  const deliver = await collector.until((requests) => spansOf(requests).find(({ name }) => name.startsWith('deliver ')));
  const post = await collector.until((requests) => spansOf(requests).find(({ name }) => name.startsWith('POST ')));
  for (const { url, headers, body } of collector.requests) {
    assert.equal(url, '/v1/traces');
    assert.equal(headers['content-type'], 'application/json');
    const given = JSON.parse(body);
    const bytes = withIds(given, (hex) => Buffer.from(hex, 'hex').toString('base64'));
    assert.equal(ExportTraceServiceRequest.verify(ExportTraceServiceRequest.fromObject(bytes)), null);
    // A field that the schema does not know would be gone.
    const read = ExportTraceServiceRequest.decode(
      ExportTraceServiceRequest.encode(ExportTraceServiceRequest.fromObject(bytes)).finish(),
    );
    const again = ExportTraceServiceRequest.toObject(read, { longs: String, bytes: String });
    assert.deepEqual(withIds(again, (base64) => Buffer.from(base64, 'base64').toString('hex')), given);
  }
  assert.equal(post.parentSpanId, 'b7ad6b7169203331');
  assert.equal(deliver.parentSpanId, post.spanId);
  assert.equal(received.headers.traceparent, `00-0af7651916cd43dd8448eb211c80319c-${deliver.spanId}-01`);
});

test('metrics are read by a parser of their format', async () => {
  await enqueue();
  const answer = await fetch(`${daemon.url}/metrics`);
  const families = new Map(parsePrometheus(await answer.text()).map((family) => [family.name, family]));
  assert.equal(families.get('twinbox_http_requests_total').type, 'COUNTER');
  const accepted = families
    .get('twinbox_http_requests_total')
    .metrics.filter(({ labels }) => labels.status === '202' && labels.endpoint === '/v1/outbox/{topic}');
  assert.equal(accepted.length, 1);
  assert.ok(Number(accepted[0].value) >= 1);
  const times = families.get('twinbox_http_request_seconds');
  assert.equal(times.type, 'HISTOGRAM');
  const { buckets } = times.metrics[0];
  const bound = (text) => Number(text.replace('+Inf', 'Infinity'));
  const counts = Object.keys(buckets)
    .sort((a, b) => bound(a) - bound(b))
    .map((text) => Number(buckets[text]));
  assert.deepEqual(counts, [...counts].sort((a, b) => a - b));
  assert.ok(counts.at(-1) >= 2);
  for (const { name, help } of families.values()) assert.ok(help, `${name} has a help text`);
});
