"""Messages in, over HTTP."""
import hashlib
import hmac
import json
import secrets
import signal
import sqlite3
import time
import unittest

from daemon import LIMIT, Daemon

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


OWNED = """
[webhook.shop]
scheme = "stripe"
secrets = ["env:SECRET"]

[source.bank]
type = "kafka"
url = "127.0.0.1:1"
topics = ["payments"]
group = "g"

[[subscription]]
name = "broker"
topic = "orders"
route = "/sidecar/orders"

[[event]]
name = "order.paid"
mode = "inline"
sink = "quiet"

[sink.quiet]
type = "log"

[sink.local]
type = "inbox"

[[route]]
topic = "local.#"
sink = "local"
"""


class Senders(unittest.TestCase):
    """Several of them: none reaches what another one has sent."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(OWNED, {"SECRET": "whsec_new"}).start()
        cls.daemon.wait_for_token()

    @classmethod
    def tearDownClass(cls):
        assert cls.daemon.stop() == 0

    def sql(self, text, *values):
        database = sqlite3.connect(self.daemon.folder / "twinbox.db")
        try:
            return database.execute(text, values).fetchall()
        finally:
            database.close()

    def conflicts(self):
        text = self.daemon.ask("GET", "/metrics").body.decode()
        return int(float(text.split("\ntwinbox_conflicts_total ")[1].split()[0]))

    def event(self, path, id, body, source="/shop"):
        return self.daemon.ask("POST", path, body, {
            "ce-specversion": "1.0", "ce-id": id, "ce-source": source, "ce-type": "any",
            "Content-Type": "application/json"})

    def until_dead(self, id):
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            shown = self.daemon.ask("GET", f"/v1/messages/{id}?box=outbox").json()
            if shown["deliveries"][0]["state"] == "dead":
                return shown["deliveries"][0]
        raise AssertionError(f"it never dies: {shown}")

    def test_every_conflict_is_answered_logged_and_counted(self):
        def webhook(body):
            return self.daemon.ask("POST", "/webhooks/shop", body, signed("whsec_new", body))

        def sidecar(body):
            return self.event("/sidecar/orders", "c-sidecar", body)

        ways = {"c-webhook": [lambda: webhook(b'{"id":"c-webhook","type":"t","n":1}'),
                              lambda: webhook(b'{"id":"c-webhook","type":"t","n":2}')],
                "c-event": [lambda: self.event("/v1/events", "c-event", b"1"),
                            lambda: self.event("/v1/events", "c-event", b"2")],
                "c-inline": [lambda: self.event("/events/order.paid/v1", "c-inline", b"1"),
                             lambda: self.event("/events/order.paid/v1", "c-inline", b"2")],
                "c-sidecar": [lambda: sidecar(b"1"), lambda: sidecar(b"2")]}
        for id, (first, second) in ways.items():
            with self.subTest(id):
                before = self.conflicts()
                self.assertIn(first().status, (200, 202))
                self.assertEqual(self.conflicts(), before)
                answer = second()
                self.assertEqual(answer.status, 200, answer.body)
                if id == "c-sidecar":  # Dapr knows no conflict
                    self.assertEqual(answer.json(), {"status": "SUCCESS"})
                else:
                    self.assertIs(answer.json()["conflict"], True)
                self.daemon.wait_for(f" conflict .*id={id}$")
                self.assertEqual(self.conflicts(), before + 1)

        self.assertEqual(self.sql("select payload from inbox_message where id = 'c-webhook'"),
                         [(b'{"id":"c-webhook","type":"t","n":1}',)])

    def test_an_event_in_the_request_touches_no_message_of_another_topic(self):
        pause = lambda verb, topic: self.assertEqual(self.daemon.operate(
            "POST", f"/v1/dispatch/{verb}", json.dumps({"topic": topic})).status, 200)
        pause("pause", "held")
        answer = self.daemon.ask("POST", "/v1/inbox/desk/held", b"x", {"Idempotency-Key": "other"})
        self.assertEqual(answer.status, 202)
        for _ in range(2):
            answer = self.event("/events/order.paid/v1", "other", b"1", "desk")
            self.assertEqual(answer.status, 200, answer.body)
            self.assertEqual((answer.json()["state"], answer.json()["conflict"]),
                             ("duplicate_open", True))
        self.assertEqual(self.sql(
            "select w.attempts, w.expiries, w.last_error, w.owner from inbox_work w "
            "join inbox_message m using (number) where m.id = 'other'"), [(0, 0, None, None)])
        pause("resume", "held")

    def test_other_content_is_a_conflict_also_while_delivery_is_switched_off(self):
        topic = json.dumps({"topic": "order.paid.v1"})
        self.assertEqual(self.daemon.operate("POST", "/v1/dispatch/pause", topic).status, 200)
        self.assertEqual(self.event("/events/order.paid/v1", "kept", b"1").status, 503)
        answer = self.event("/events/order.paid/v1", "kept", b"2")
        self.assertEqual(answer.status, 200, answer.body)
        self.assertIs(answer.json()["conflict"], True)
        self.assertEqual(self.daemon.operate("POST", "/v1/dispatch/resume", topic).status, 200)

    def test_the_source_of_a_broker_is_refused_to_everybody_else(self):
        answer = self.daemon.ask("POST", "/v1/inbox/bank/t", b"x",
                                 {"Idempotency-Key": "payments/0/17"})
        self.assertEqual(answer.status, 403, answer.body)
        self.assertIn("the source 'bank' belongs to", answer.json()["detail"])
        for path in ["/v1/events", "/events/order.paid/v1"]:
            self.assertEqual(self.event(path, "payments/0/17", b"1", "bank").status, 403, path)
        answer = self.event("/sidecar/orders", "payments/0/17", b"1", "bank")
        self.assertEqual(answer.json(), {"status": "RETRY"})
        self.assertEqual(self.sql("select id from inbox_message where source = 'bank'"), [])

    def add_senders(self, *names):
        """Tokens of these names, as headers."""
        tokens = {name: secrets.token_urlsafe(32) for name in names}
        with open(self.daemon.folder / "twinbox.tokens", "a") as file:
            for name, token in tokens.items():
                file.write(f"{name} send {hashlib.sha256(token.encode()).hexdigest()}\n")
        self.daemon.signal(signal.SIGHUP)
        self.daemon.wait_for(" reloaded")
        return {name: {"Authorization": f"Bearer {token}"} for name, token in tokens.items()}

    def test_a_key_in_the_outbox_belongs_to_its_token(self):
        senders = {"-": {}} | self.add_senders("till", "shop")
        for number, (name, headers) in enumerate(senders.items()):
            answer = self.daemon.ask("POST", "/v1/outbox/order.placed", str(number),
                                     headers | {"Idempotency-Key": "same"})
            self.assertEqual(answer.status, 202, (name, answer.body))
        self.assertEqual(
            dict(self.sql("select source, payload from outbox_message where id = 'same'")),
            {"-": b"0", "till": b"1", "shop": b"2"})
        # A token may have the name of an endpoint, but reaches no inbox under it.
        answer = self.daemon.ask("POST", "/v1/outbox/local.order", b"x",
                                 senders["shop"] | {"Idempotency-Key": "forged"})
        self.assertEqual(answer.status, 202, answer.body)
        self.assertIn("the source 'shop' of this message belongs to",
                      self.until_dead("forged")["last_error"])
        self.assertEqual(self.sql("select source from inbox_message where id = 'forged'"), [])

    def test_what_an_inbox_knows_with_other_content_is_a_dead_letter_of_the_outbox(self):
        key = {"Idempotency-Key": "taken"} | self.add_senders("kiosk")["kiosk"]
        answer = self.daemon.ask("POST", "/v1/inbox/kiosk/local.order", b"first", key)
        self.assertEqual(answer.status, 202, "its own name is its own source")
        before = self.conflicts()
        self.assertEqual(
            self.daemon.ask("POST", "/v1/outbox/local.order", b"second", key).status, 202)
        self.assertEqual(self.until_dead("taken")["reason"], "conflict")
        self.assertEqual(self.conflicts(), before + 1)
        self.assertEqual(self.sql("select payload from inbox_message where id = 'taken'"),
                         [(b"first",)])


    def test_the_source_under_which_a_sink_brings_messages_is_refused_to_everybody_else(self):
        senders = {"-": {}} | self.add_senders("cashier", "clerk")
        for source, allowed in [("outbox", None), ("cashier", "cashier"), ("first", None)]:
            for name, headers in senders.items():
                with self.subTest(source=source, sender=name):
                    key = {"Idempotency-Key": f"pre-{source}"} | headers
                    answer = self.daemon.ask("POST", f"/v1/inbox/{source}/t", b"x", key)
                    self.assertEqual(answer.status, 202 if name == allowed else 403, answer.body)
        self.assertEqual(self.event("/v1/events", "pre-outbox", b"1", "outbox").status, 403)
        self.assertEqual(self.sql("select source from inbox_message where id like 'pre-%'"),
                         [("cashier",)])


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
                self.assertIn("choose one of archive, main", answer.json()["detail"])
            self.assertEqual(again.ask("POST", "/v1/outbox/a?store=main", b"x").status, 202)
            self.assertEqual(len(again.ask("GET", "/v1/messages?store=main").json()["messages"]), 2)
            pause = again.ask("POST", "/v1/dispatch/pause", "{}",
                              {"Authorization": f"Bearer {daemon.token}"})
            self.assertEqual(pause.status, 200, "its tokens are still the same")

    def test_every_endpoint_that_works_on_one_store_wants_its_name(self):
        delivery = '{"number":1,"handler":""}'
        one = {
            ("POST", "/v1/outbox/{topic}"): "x", ("POST", "/v1/inbox/{source}/{topic}"): "x",
            ("POST", "/v1/events"): "x",
            ("GET", "/v1/messages"): None, ("GET", "/v1/messages/{id}"): None,
            ("GET", "/v1/operations/{id}"): None, ("GET", "/v1/audit"): None,
            ("POST", "/v1/messages/requeue"): '{"filter":{"state":"dead"}}',
            ("POST", "/v1/messages/discard"): '{"filter":{"state":"dead"},"reason":"r"}',
            ("POST", "/v1/messages/postpone"): f'{{"deliveries":[{delivery}],"delay":"1m"}}',
            ("POST", "/v1/messages/edit"): '{"number":1,"content_version":1,"payload":"x"}',
        }
        # These look at all stores unless one is named, or at none.
        others = {
            *(("GET", path) for path in [
                "/", "/assets/{file}", "/dapr/subscribe", "/health", "/health/live", "/health/ready",
                "/metrics", "/openapi.json", "/v1/dispatch", "/v1/dead_letter_groups", "/v1/history", "/v1/overview/stream",
                "/v1/me", "/v1/overview", "/v1/stores", "/v1/workers"]),
            *(("POST", path) for path in [
                "/v1/dispatch/pause", "/v1/dispatch/resume", "/v1/login", "/v1/logout",
                "/v1/routes/{name}/disable", "/v1/routes/{name}/enable",
                # The configuration names their store.
                "/events/{name}/{version}", "/sidecar/{route}", "/webhooks/{endpoint}"]),
            ("GET", "/webhooks/{endpoint}"), ("OPTIONS", "/webhooks/{endpoint}")}
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
                self.assertIn("choose one of archive, main", answer.json()["detail"], path)
            self.assertEqual(daemon.stop(), 0)


if __name__ == "__main__":
    unittest.main()
