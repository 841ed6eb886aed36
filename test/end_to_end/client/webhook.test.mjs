// What the senders' own libraries sign, we verify; what we sign, theirs verify.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';

import { sign as signGitHub, verify as verifyGitHub } from '@octokit/webhooks-methods';
import { Webhook } from 'standardwebhooks';
import Stripe from 'stripe';

import { startDriver } from './driver.mjs';

const driver = startDriver();
after(() => driver.stop());

const now = Math.floor(Date.now() / 1000);
const bodies = ['{"id":"evt_1","type":"charge.succeeded"}', '', 'ä€😀 \u0000\n"quoted"', 'x'.repeat(100_000)];
const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const newer = 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD';

function verify(scheme, secrets, headers, body, at = now) {
  return driver.ask({ act: 'verify', scheme, secrets, headers, body, now: at });
}

async function expectGenuine(scheme, secrets, headers, body) {
  assert.deepEqual(await verify(scheme, secrets, headers, body), { genuine: true, fault: null });
}

test('stripe: what its test-header generator makes is genuine', async () => {
  const stripe = new Stripe('sk_test_nothing');
  for (const payload of bodies) {
    const header = stripe.webhooks.generateTestHeaderString({ payload, secret: 'whsec_test', timestamp: now });
    const headers = { 'Stripe-Signature': header };
    await expectGenuine('stripe', ['whsec_test'], headers, payload);
    await expectGenuine('stripe', ['whsec_other', 'whsec_test'], headers, payload);
    assert.equal((await verify('stripe', ['whsec_other'], headers, payload)).fault, 'no_match');
    assert.equal((await verify('stripe', ['whsec_test'], headers, payload + ' ')).fault, 'no_match');
    assert.equal((await verify('stripe', ['whsec_test'], headers, payload, now + 301)).fault, 'too_old');
    assert.equal((await verify('stripe', ['whsec_test'], headers, payload, now - 301)).fault, 'too_new');
  }
});

test('github: what octokit signs is genuine', async () => {
  for (const body of bodies.filter((text) => text !== '')) {
    const signature = await signGitHub('mysecret', body);
    await expectGenuine('github', ['mysecret'], { 'X-Hub-Signature-256': signature }, body);
    await expectGenuine('github', ['new', 'mysecret'], { 'x-hub-signature-256': signature }, body);
    const changed = await verify('github', ['mysecret'], { 'X-Hub-Signature-256': signature }, body + '.');
    assert.equal(changed.fault, 'no_match');
    assert.equal(await verifyGitHub('mysecret', body, signature), true);
  }
});

test('standard webhooks: what their library signs is genuine', async () => {
  for (const body of bodies) {
    const headers = {
      'webhook-id': 'msg_1',
      'webhook-timestamp': String(now),
      'webhook-signature': new Webhook(secret).sign('msg_1', new Date(now * 1000), body),
    };
    await expectGenuine('standard_webhooks', [secret], headers, body);
    await expectGenuine('standard_webhooks', [newer, secret], headers, body);
    assert.equal((await verify('standard_webhooks', [newer], headers, body)).fault, 'no_match');
    const renamed = { ...headers, 'webhook-id': 'msg_2' };
    assert.equal((await verify('standard_webhooks', [secret], renamed, body)).fault, 'no_match');
  }
});

test('standard webhooks: their library takes what we sign, with either secret', async () => {
  for (const body of ['{"type":"contact.created"}', '{"text":"ä€😀"}']) {
    const { headers } = await driver.ask({ act: 'sign', secrets: [secret, newer], id: 'msg_1', at: now, body });
    assert.deepEqual(new Webhook(secret).verify(body, headers), JSON.parse(body));
    assert.deepEqual(new Webhook(newer).verify(body, headers), JSON.parse(body));
    assert.throws(() => new Webhook(secret).verify(body + ' ', headers));
    assert.throws(() => new Webhook('whsec_' + 'A'.repeat(32)).verify(body, headers));
  }
});
