// The senders' own libraries against the real program.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { sign as signGitHub } from '@octokit/webhooks-methods';
import { Webhook } from 'standardwebhooks';
import Stripe from 'stripe';

import { startDaemon } from './daemon.mjs';

const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const newer = 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD';
const config = `
[webhook.stripe]
scheme = "stripe"
secrets = ["env:STRIPE_SECRET"]

[webhook.github]
scheme = "github"
secrets = ["env:GITHUB_SECRET"]
topic_prefix = "github."

[webhook.crm]
scheme = "standard_webhooks"
secrets = ["env:CRM_NEW", "env:CRM_OLD"]
`;

let daemon;
before(async () => {
  daemon = await startDaemon(config, {
    STRIPE_SECRET: 'whsec_stripe',
    GITHUB_SECRET: "It's a Secret to Everybody",
    CRM_OLD: secret,
    CRM_NEW: newer,
  });
});
after(async () => assert.equal(await daemon.stop(), 0));

async function post(endpoint, headers, body) {
  const response = await fetch(`${daemon.url}/webhooks/${endpoint}`, { method: 'POST', headers, body });
  return { status: response.status, answer: await response.json() };
}

/** Taken once, known the second time, refused when it was changed. */
async function expectTaken(endpoint, headers, body, id) {
  const first = await post(endpoint, headers, body);
  assert.deepEqual(first, {
    status: 202,
    answer: { state: 'accepted', source: endpoint, id, conflict: false },
  });
  const second = await post(endpoint, headers, body);
  assert.equal(second.status, 200);
  assert.match(second.answer.state, /^duplicate_/);
  const changed = await post(endpoint, headers, body + ' ');
  assert.equal(changed.status, 401);
  assert.equal(changed.answer.detail, 'it could not be verified who sent this');
}

test('stripe', async () => {
  const stripe = new Stripe('sk_test_nothing');
  const payload = JSON.stringify({ id: 'evt_1', type: 'charge.succeeded', text: 'ä€😀' });
  const header = stripe.webhooks.generateTestHeaderString({ payload, secret: 'whsec_stripe' });
  await expectTaken('stripe', { 'Stripe-Signature': header }, payload, 'evt_1');
  const late = stripe.webhooks.generateTestHeaderString({
    payload,
    secret: 'whsec_stripe',
    timestamp: Math.floor(Date.now() / 1000) - 400,
  });
  assert.equal((await post('stripe', { 'Stripe-Signature': late }, payload)).status, 401);
});

test('github', async () => {
  const body = JSON.stringify({ action: 'opened' });
  const signature = await signGitHub("It's a Secret to Everybody", body);
  const headers = {
    'X-Hub-Signature-256': signature,
    'X-GitHub-Delivery': '72d3162e-cc78-11e3-81ab-4c9367dc0958',
    'X-GitHub-Event': 'issues',
  };
  await expectTaken('github', headers, body, '72d3162e-cc78-11e3-81ab-4c9367dc0958');
});

for (const [name, key] of [['old', secret], ['new', newer]]) {
  test(`standard webhooks with the ${name} secret`, async () => {
    const body = JSON.stringify({ type: 'contact.created' });
    const id = `msg_${name}`;
    const now = new Date();
    const headers = {
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
      'webhook-signature': new Webhook(key).sign(id, now, body),
    };
    await expectTaken('crm', headers, body, id);
  });
}

test('the log knows why something was refused, and no payload', async () => {
  await post('stripe', {}, '{"id":"evt_2","mark":"~payload~"}');
  await post('nowhere', {}, '{}');
  await daemon.waitFor(/webhook_refused .*there is no header Stripe-Signature/);
  assert.doesNotMatch(daemon.lines.join('\n'), /~payload~/);
});
