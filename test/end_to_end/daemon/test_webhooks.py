"""Webhooks by their configuration: schemes that need one, and what senders ask before they send."""
import base64
import hashlib
import hmac
import json
import os
import pathlib
import subprocess
import time
import unittest
from urllib.parse import quote

from daemon import LIMIT, PROGRAM, Daemon, new_folder
from test_openapi import OpenApi

CONFIG = """
[webhook.svix]
scheme = "standard_webhooks"
secrets = ["env:SVIX"]
header_prefix = "svix-"

[webhook.events]
scheme = "bearer"
secrets = ["env:TOKEN"]
handshake = "cloudevents"
allowed_origins = ["eventgrid.azure.net"]
allowed_rate = 120

[webhook.whatsapp]
scheme = "hmac"
secrets = ["env:TOKEN"]
header = "X-Hub-Signature-256"
prefix = "sha256="
handshake = "meta"
verify_tokens = ["env:VERIFY"]

[webhook.zoom]
scheme = "hmac"
secrets = ["env:OTHER", "env:TOKEN"]
header = "x-zm-signature"
prefix = "v0="
timestamp_header = "x-zm-request-timestamp"
signed_content = "v0:{timestamp}:{body}"
topic = "/event"
handshake = "zoom"

[webhook.graph]
scheme = "graph"
secrets = ["env:TOKEN"]
handshake = "graph"

[webhook.plain]
scheme = "hmac"
secrets = ["env:TOKEN"]
header = "X-Signature"
"""
KEY = b"0123456789abcdef0123456789abcdef"
TOKEN = "the secret of a sender"
SECRETS = {"SVIX": "whsec_" + base64.b64encode(KEY).decode(), "TOKEN": TOKEN,
           "OTHER": "another secret of it", "VERIFY": "a verify token"}


def mac(secret, content):
    return hmac.new(secret, content, hashlib.sha256).digest()


class Webhooks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(CONFIG, SECRETS).start()
        cls.daemon.wait_for_token()
        cls.document = cls.daemon.ask("GET", "/openapi.json").json()

    @classmethod
    def tearDownClass(cls):
        assert cls.daemon.stop() == 0

    def ask(self, method, target, body=None, headers=None, status=200):
        answer = self.daemon.ask(method, target, body, headers)
        self.assertEqual(answer.status, status, (target, answer.body))
        OpenApi.check_answer(self, self.document, method, "/webhooks/{endpoint}", answer)
        return answer

    def stored(self, endpoint):
        answer = self.daemon.operate("GET", f"/v1/messages?box=inbox&source={endpoint}")
        return [(one["id"], one["topic"]) for one in answer.json()["messages"]]

    def assert_plain(self, answer, text):
        self.assertEqual(answer.body, text)
        self.assertEqual(answer.headers["Content-Type"], "text/plain")
        self.assertEqual(answer.headers["X-Content-Type-Options"], "nosniff")

    def test_svix_sends_as_standard_webhooks_under_headers_of_its_own(self):
        body = b'{"type":"invoice.paid"}'
        now = str(int(time.time()))
        code = base64.b64encode(mac(KEY, b"msg_1." + now.encode() + b"." + body)).decode()
        headers = {"svix-id": "msg_1", "svix-timestamp": now, "svix-signature": "v1," + code}
        self.ask("POST", "/webhooks/svix", body, headers, 202)
        self.ask("POST", "/webhooks/svix", body, headers, 200)
        self.ask("POST", "/webhooks/svix", body + b" ", headers, 401)
        standard = {name.replace("svix-", "webhook-"): value for name, value in headers.items()}
        self.ask("POST", "/webhooks/svix", body, standard, 401)
        self.assertEqual(self.stored("svix"), [("msg_1", "invoice.paid")])

    def test_a_quoted_idempotency_key_is_the_plain_one(self):
        for key, status in [('"k \\"1\\""', 202), ('k "1"', 200), ('"k', 400)]:
            self.ask("POST", "/webhooks/events", b"x",
                     {"Authorization": "Bearer " + TOKEN, "Idempotency-Key": key}, status)
        self.assertEqual(self.stored("events"), [('k "1"', "events")])

    def test_cloudevents_asks_whether_it_may_send(self):
        origin = {"WebHook-Request-Origin": "EventGrid.azure.net",
                  "WebHook-Request-Callback": "http://127.0.0.1:1/", "WebHook-Request-Rate": "1000"}
        answer = self.ask("OPTIONS", "/webhooks/events", headers=origin)
        self.assertEqual(answer.headers["WebHook-Allowed-Origin"], "eventgrid.azure.net")
        self.assertEqual(answer.headers["WebHook-Allowed-Rate"], "120")
        self.ask("OPTIONS", "/webhooks/events", status=400)
        answer = self.ask("OPTIONS", "/webhooks/events",
                          headers={"WebHook-Request-Origin": "evil.example"}, status=403)
        self.assertNotIn("WebHook-Allowed-Origin", answer.headers)
        self.assertNotIn(b"evil.example", answer.body)
        answer = self.ask("OPTIONS", "/webhooks/plain", headers=origin, status=405)
        self.assertEqual(answer.headers["Allow"], "POST")

    def test_meta_asks_for_its_challenge(self):
        def question(token, challenge="1158201444", mode="subscribe"):
            return (f"/webhooks/whatsapp?hub.mode={mode}&hub.challenge={quote(challenge)}"
                    f"&hub.verify_token={token}")

        self.assert_plain(self.ask("GET", question("a+verify%20token")), b"1158201444")
        script = "<script>alert(1)</script>"
        self.assert_plain(self.ask("GET", question("a+verify+token", script)), script.encode())
        for target in [question("wrong"), question(""), question("a+verify+token", mode="x"),
                       "/webhooks/whatsapp"]:
            answer = self.ask("GET", target, status=403)
            self.assertNotIn(b"1158201444", answer.body)
        for challenge in ["", "x" * 1025, "a\nb", "\u00e9"]:
            self.ask("GET", question("a+verify+token", challenge), status=400)
        answer = self.ask("GET", question("a+verify+token").replace("whatsapp", "plain"), status=405)
        self.assertEqual(answer.headers["Allow"], "POST")
        self.assertEqual(self.daemon.ask("PUT", "/webhooks/whatsapp").headers["Allow"],
                         "POST, GET, HEAD")
        self.assertFalse([line for line in self.daemon.lines if "verify token" in line
                          or "a+verify" in line])

    def test_zoom_asks_for_the_hmac_of_its_token(self):
        def signed(body, secret=TOKEN):
            now = str(int(time.time()))
            code = mac(secret.encode(), b"v0:" + now.encode() + b":" + body).hex()
            return {"x-zm-signature": "v0=" + code, "x-zm-request-timestamp": now}

        body = b'{"event":"endpoint.url_validation","payload":{"plainToken":"qgg8vlvZRS6UYooatFL8Aw"}}'
        for secret in [TOKEN, SECRETS["OTHER"]]:
            answer = self.ask("POST", "/webhooks/zoom", body, signed(body, secret))
            self.assertEqual(answer.json(), {
                "plainToken": "qgg8vlvZRS6UYooatFL8Aw",
                "encryptedToken": mac(secret.encode(), b"qgg8vlvZRS6UYooatFL8Aw").hex()})
        self.ask("POST", "/webhooks/zoom", body, signed(body, "wrong"), 401)
        self.assertEqual(self.stored("zoom"), [])
        body = b'{"event":"meeting.started"}'
        self.ask("POST", "/webhooks/zoom", body, signed(body), 202)
        self.assertEqual([topic for _, topic in self.stored("zoom")], ["meeting.started"])

    def test_graph_asks_for_its_token_and_sends_its_client_state(self):
        token = "Validation: Testing client application reachability for subscription Request-Id: 5"
        for name in ["validationToken", "validationtoken"]:
            answer = self.ask("POST", f"/webhooks/graph?{name}={quote(token).replace('%20', '+')}")
            self.assert_plain(answer, token.encode())
        self.ask("POST", "/webhooks/graph?validationToken=" + "x" * 1025, status=400)
        self.assertEqual(self.stored("graph"), [])
        self.ask("POST", "/webhooks/plain?validationToken=x", status=401)

        def notifications(*states):
            return json.dumps({"value": [{"clientState": one} for one in states]}).encode()

        self.ask("POST", "/webhooks/graph", notifications(TOKEN, TOKEN), status=202)
        for body in [notifications(), notifications(TOKEN, "wrong"), b"{}", b"x",
                     b'{"value":[{}]}', b'{"value":[{"clientState":1}]}']:
            self.ask("POST", "/webhooks/graph", body, status=401)
        self.assertEqual([topic for _, topic in self.stored("graph")], ["graph"])

    def test_a_handshake_that_makes_no_sense_is_refused(self):
        def check(text):
            folder = pathlib.Path(new_folder("twinbox_webhooks_"))
            (folder / "twinbox.toml").write_text("[webhook.a]\n" + text)
            return subprocess.run([os.path.abspath(PROGRAM), "config", "check", "--config", "twinbox.toml"],
                                  cwd=folder, capture_output=True, text=True, timeout=LIMIT, env=SECRETS)

        secret = 'secrets = ["env:TOKEN"]\n'
        header = 'header = "X-S"\n'
        for text, words in [
                ('scheme = "stripe"\nhandshake = "meta"\nverify_tokens = ["env:VERIFY"]\n',
                 "goes with the scheme hmac"),
                ('scheme = "hmac"\nhandshake = "meta"\n' + header, "verify token"),
                ('scheme = "hmac"\nhandshake = "zoom"\nalgorithm = "sha1"\n' + header, "SHA-256"),
                ('scheme = "bearer"\nhandshake = "graph"\n', "the scheme graph"),
                ('scheme = "bearer"\nhandshake = "cloudevents"\n', "needs the origins"),
                ('scheme = "slack"\nhandshake = "cloudevents"\nallowed_origins = ["*"]\n', "bearer"),
                ('scheme = "bearer"\nallowed_origins = ["*"]\n', 'handshake = "cloudevents"'),
                ('scheme = "hmac"\nverify_tokens = ["env:VERIFY"]\n' + header, 'handshake = "meta"'),
                ('scheme = "bearer"\nhandshake = "slack"\n', "expected one of")]:
            done = check(text + secret)
            self.assertNotEqual(done.returncode, 0, text)
            self.assertIn(words, done.stdout + done.stderr, text)


if __name__ == "__main__":
    unittest.main()
