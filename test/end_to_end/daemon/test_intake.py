"""Messages in, over HTTP."""
import hashlib
import hmac
import json
import sqlite3
import time
import unittest

from daemon import Daemon

CONFIG = """
[webhook.shop]
scheme = "stripe"
secrets = ["env:OLD_SECRET", "env:NEW_SECRET"]

[webhook.own]
scheme = "hmac"
secrets = ["env:NEW_SECRET"]
header = "X-Signature"
id = "/number"
topic = "header:X-Topic"

[intake]
keep_headers = ["User-Agent"]
"""


def signed(secret, body):
    now = str(int(time.time()))
    mac = hmac.new(secret.encode(), now.encode() + b"." + body, hashlib.sha256).hexdigest()
    return {"Stripe-Signature": f"t={now},v1={mac}"}


class Intake(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(CONFIG, {"OLD_SECRET": "whsec_old", "NEW_SECRET": "whsec_new"}).start()

    @classmethod
    def tearDownClass(cls):
        assert cls.daemon.stop() == 0

    def rows(self, box, id):
        database = sqlite3.connect(self.daemon.folder / "twinbox.db")
        try:
            return database.execute(
                f"select topic, payload, headers from {box}_message where id = ?", (id,)).fetchall()
        finally:
            database.close()

    def conflicts(self):
        text = self.daemon.ask("GET", "/metrics").body.decode()
        return int(float(text.split("\ntwinbox_conflicts_total ")[1].split()[0]))

    def test_other_content_under_a_known_key_is_refused_and_counted(self):
        before = self.conflicts()
        key = {"Idempotency-Key": "known"}
        self.assertEqual(self.daemon.ask("POST", "/v1/outbox/a", b"1", key).status, 202)
        again = self.daemon.ask("POST", "/v1/outbox/a", b"1", {"Idempotency-Key": '"known"'})
        self.assertEqual((again.status, again.json()["state"]), (200, "duplicate"))
        other = self.daemon.ask("POST", "/v1/outbox/a", b"2", key)
        self.assertEqual((other.status, other.json()["conflict"]), (422, True))
        self.assertEqual(self.rows("outbox", "known")[0][:2], ("a", b"1"))
        self.assertEqual(self.daemon.ask("POST", "/v1/inbox/x/a", b"1", key).status, 202)
        other = self.daemon.ask("POST", "/v1/inbox/x/b", b"2", key)
        self.assertEqual((other.status, other.json()["conflict"]), (200, True))
        self.assertEqual(self.rows("inbox", "known")[0][:2], ("a", b"1"))
        self.assertEqual(self.conflicts(), before + 2)

    def test_the_source_of_a_webhook_is_refused_to_everybody_else(self):
        answer = self.daemon.ask("POST", "/v1/inbox/shop/t", b"x", {"Idempotency-Key": "forged"})
        self.assertEqual(answer.status, 403)
        event = {"ce-specversion": "1.0", "ce-id": "forged", "ce-source": "shop", "ce-type": "t"}
        self.assertEqual(self.daemon.ask("POST", "/v1/events", b"x", event).status, 403)
        self.assertEqual(self.rows("inbox", "forged"), [])

    def test_what_is_enqueued_keeps_what_came_with_it(self):
        answer = self.daemon.ask("POST", "/v1/outbox/order.placed", b"\x00\xff", {
            "Idempotency-Key": "order-1", "Content-Type": "application/octet-stream",
            "User-Agent": "till", "Twinbox-Correlation-Id": "story",
            "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})
        self.assertEqual((answer.status, answer.json()["id"]), (202, "order-1"))
        topic, payload, headers = self.rows("outbox", "order-1")[0]
        self.assertEqual((topic, payload), ("order.placed", b"\x00\xff"))
        self.assertIn("till", headers)
        self.assertIn("0af7651916cd43dd8448eb211c80319c", headers)
        shown = self.daemon.ask("GET", "/v1/messages/order-1").json()
        self.assertEqual((shown["payload"], shown["payload_encoding"]), ("AP8=", "base64"))
        self.assertEqual(shown["correlation_id"], "story")

    def test_what_is_accepted_twice_is_there_once(self):
        for status, state in [(202, "accepted"), (200, "duplicate_open")]:
            answer = self.daemon.ask("POST", "/v1/inbox/till/order.placed", b"one",
                                     {"Idempotency-Key": "in-1"})
            self.assertEqual((answer.status, answer.json()["state"]), (status, state))
        self.assertEqual(len(self.rows("inbox", "in-1")), 1)
        self.assertEqual(self.daemon.ask("POST", "/v1/inbox/till/x", b"one").status, 400)

    def test_a_webhook_needs_its_signature_and_either_secret_will_do(self):
        for number, secret in enumerate(["whsec_old", "whsec_new"]):
            body = json.dumps({"id": f"evt_{number}", "type": "charge.paid"}).encode()
            answer = self.daemon.ask("POST", "/webhooks/shop", body, signed(secret, body))
            self.assertEqual(answer.status, 202, answer.body)
            again = self.daemon.ask("POST", "/webhooks/shop", body, signed(secret, body))
            self.assertEqual(again.status, 200, again.body)
            self.assertEqual(self.rows("inbox", f"evt_{number}")[0][0], "charge.paid")
        body = b'{"id":"evt_9","type":"charge.paid"}'
        self.assertEqual(self.daemon.ask("POST", "/webhooks/shop", body).status, 401)
        forged = signed("whsec_other", body)
        self.assertEqual(self.daemon.ask("POST", "/webhooks/shop", body, forged).status, 401)
        self.assertEqual(self.rows("inbox", "evt_9"), [])
        self.assertEqual(self.daemon.ask("POST", "/webhooks/none", body).status, 404)

    def test_a_webhook_of_nobody_in_particular(self):
        body = b'{"number":17}'
        mac = hmac.new(b"whsec_new", body, hashlib.sha256).hexdigest()
        answer = self.daemon.ask("POST", "/webhooks/own", body,
                                 {"X-Signature": mac, "X-Topic": "paper.jam"})
        self.assertEqual(answer.status, 202, answer.body)
        self.assertEqual(self.rows("inbox", "17")[0][0], "paper.jam")


class SeveralStores(unittest.TestCase):
    def test_a_request_names_its_store_and_a_new_one_diverts_nothing(self):
        main = '[store.main]\nurl = "sqlite:main.db"\n'
        daemon = Daemon(main).start()
        self.addCleanup(daemon.__exit__)
        daemon.wait_for_token()
        self.assertEqual(daemon.ask("POST", "/v1/outbox/a", b"x").status, 202)
        self.assertEqual(daemon.stop(), 0)
        both = main + '[store.archive]\nurl = "sqlite:archive.db"\n' \
            '[access]\ntoken_file = "twinbox.tokens"\n'
        with Daemon(both, folder=daemon.folder) as again:
            for method, target in [("POST", "/v1/outbox/a"), ("POST", "/v1/inbox/s/a"),
                                   ("POST", "/v1/events"), ("GET", "/v1/messages"),
                                   ("GET", "/v1/audit")]:
                answer = again.ask(method, target, b"x" if method == "POST" else None)
                self.assertEqual(answer.status, 400, (target, answer.body))
                self.assertIn("name one of archive, main", answer.json()["detail"])
            self.assertEqual(again.ask("POST", "/v1/outbox/a?store=main", b"x").status, 202)
            self.assertEqual(len(again.ask("GET", "/v1/messages?store=main").json()["messages"]), 2)
            pause = again.ask("POST", "/v1/dispatch/pause", "{}",
                              {"Authorization": f"Bearer {daemon.token}"})
            self.assertEqual(pause.status, 200, "its tokens are still the same")

    def test_every_endpoint_that_works_on_one_store_wants_its_name(self):
        duty = '{"number":1,"handler":""}'
        one = {
            ("POST", "/v1/outbox/{topic}"): "x", ("POST", "/v1/inbox/{source}/{topic}"): "x",
            ("POST", "/v1/events"): "x",
            ("GET", "/v1/messages"): None, ("GET", "/v1/messages/{id}"): None,
            ("GET", "/v1/operations/{id}"): None, ("GET", "/v1/audit"): None,
            ("POST", "/v1/messages/requeue"): '{"filter":{"state":"dead"}}',
            ("POST", "/v1/messages/discard"): '{"filter":{"state":"dead"},"reason":"r"}',
            ("POST", "/v1/messages/postpone"): f'{{"duties":[{duty}],"delay":"1m"}}',
            ("POST", "/v1/messages/edit"): '{"number":1,"content_version":1,"payload":"x"}',
        }
        # These look at all stores unless one is named, or at none.
        others = {
            *(("GET", path) for path in [
                "/", "/assets/{file}", "/dapr/subscribe", "/health", "/health/live", "/health/ready",
                "/metrics", "/openapi.json", "/v1/dispatch", "/v1/groups", "/v1/history", "/v1/live",
                "/v1/me", "/v1/overview", "/v1/stores", "/v1/workers"]),
            *(("POST", path) for path in [
                "/v1/dispatch/pause", "/v1/dispatch/resume", "/v1/login", "/v1/logout",
                "/v1/routes/{name}/disable", "/v1/routes/{name}/enable",
                # The configuration names their store.
                "/events/{name}/{version}", "/sidecar/{route}", "/webhooks/{endpoint}"])}
        with Daemon('[store.main]\nurl = "sqlite:main.db"\n[store.archive]\nurl = "sqlite:archive.db"\n'
                    '[access]\ntoken_file = "twinbox.tokens"\n') as daemon:
            daemon.wait_for_token()
            paths = daemon.ask("GET", "/openapi.json").json()["paths"]
            known = {(method.upper(), path) for path, methods in paths.items() for method in methods}
            self.assertEqual(known, set(one) | others)
            for (method, path), body in one.items():
                target = path.replace("{", "").replace("}", "")
                answer = daemon.operate(method, target, body)
                self.assertEqual(answer.status, 400, (path, answer.body))
                self.assertIn("name one of archive, main", answer.json()["detail"], path)
            self.assertEqual(daemon.stop(), 0)


if __name__ == "__main__":
    unittest.main()
