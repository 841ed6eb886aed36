// What a running daemon says of its inbox and its metrics, asked for until it says it.
import assert from 'node:assert/strict';

/** A message of the inbox. */
export async function stored(daemon, id) {
  for (;;) {
    const response = await fetch(`${daemon.url}/v1/messages/${encodeURIComponent(id)}?box=inbox`);
    if (response.status === 200) return response.json();
    assert.equal(response.status, 404, await response.text());
  }
}

/** Waits until the metrics show it. */
export async function metric(daemon, pattern) {
  for (;;) {
    const text = await (await fetch(`${daemon.url}/metrics`)).text();
    if (pattern.test(text)) return;
  }
}
