"""Messages out: routes, sinks, retries, dead letters, pauses, traces."""
import json
import signal
import threading
import time
import unittest

from daemon import LIMIT, Daemon
from receiver import Receiver, spans_in
from store import SqliteStore

ROUTES = """
[retry.quick]
first_delay = "10ms"
max_delay = "10ms"
max_attempts = 2

[sink.there]
type = "http"
url = "{url}"
allow = ["127.0.0.1"]

[[route]]
name = "orders"
topic = "order.#"
sink = "there"
retry = "quick"

[dispatch]
poll_interval = "20ms"
no_route = "dead"
"""


class Delivery(unittest.TestCase):
    def daemon(self, config, **options):
        daemon = Daemon(config, **options).start()
        self.addCleanup(daemon.__exit__)
        daemon.wait_for_token()
        return daemon

    def until(self, daemon, target, fits):
        """Asks again until the answer fits; only a failure takes so long."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            found = daemon.ask("GET", target).json()
            if fits(found):
                return found
        raise AssertionError(f"{target} never fits: {found}")

    def test_a_topic_without_a_route_says_what_is_missing(self):
        for no_route in ["dead", "retry"]:
            config = ROUTES.replace('"dead"', f'"{no_route}"').format(url="http://127.0.0.1:1")
            with self.subTest(no_route), Daemon(config) as daemon:
                daemon.ask("POST", "/v1/outbox/payment.received", b"x", {"Idempotency-Key": "one"})
                missing = ('a [[route]] with box = "outbox" and this topic, or a pattern that matches it, '
                           "in twinbox.toml")
                line = daemon.wait_for(r"no_handler (.*)")[1]
                self.assertIn("topic=payment.received", line)
                self.assertIn(missing, line.replace("\\", ""))
                found = self.until(daemon, "/v1/messages/one", lambda m: m["deliveries"][0]["last_error"])
                self.assertEqual(found["deliveries"][0]["last_error"],
                                 "no handler for topic 'payment.received'; missing: " + missing)

    def test_a_message_goes_in_and_out(self):
        with Receiver() as receiver:
            daemon = self.daemon(ROUTES.format(url=receiver.url))
            daemon.ask("POST", "/v1/outbox/order.placed", b'{"order":1}',
                       {"Idempotency-Key": "one", "Content-Type": "application/json"})
            status, _, headers, body = receiver.next()
            self.assertEqual((status, body), (200, b'{"order":1}'))
            self.assertEqual(headers["Content-Type"], "application/json")
            self.until(daemon, "/v1/messages/one", lambda m: m["deliveries"][0]["state"] == "done")
            self.assertEqual(daemon.stop(), 0)

    def test_an_old_replica_leaves_what_only_the_new_one_routes_to_it(self):
        with Receiver() as receiver:
            config = ROUTES.format(url=receiver.url)
            old = self.daemon(config)
            store = f'[store.main]\nurl = "sqlite:{old.folder}/twinbox.db"\n'
            new = Daemon(store + config + """
[[route]]
name = "invoices"
topic = "invoice.#"
sink = "there"
""").start()
            self.addCleanup(new.__exit__)
            new.token = old.token  # it is kept in the store
            # As soon as it is listed, it has announced its routes.
            self.until(old, "/v1/workers", lambda shown: len(shown["workers"]) == 2)
            new.operate("POST", "/v1/dispatch/pause", "{}")
            old.ask("POST", "/v1/outbox/invoice.sent", b"x", {"Idempotency-Key": "one"})
            for _ in range(3):  # each time it comes due again
                self.assertIn("topic=invoice.sent", old.wait_for(r"left_to_other_worker (.*)")[1])
            delivery = old.ask("GET", "/v1/messages/one").json()["deliveries"][0]
            self.assertEqual((delivery["attempts"], delivery["last_error"] or ""), (0, ""))
            self.assertTrue(receiver.requests.empty())
            new.operate("POST", "/v1/dispatch/resume", "{}")
            self.assertEqual(receiver.next()[3], b"x")
            self.until(new, "/v1/messages/one", lambda m: m["deliveries"][0]["state"] == "done")
            self.assertFalse([line for line in old.lines if "no_handler" in line])

    def test_what_fails_is_retried_then_dead_then_requeued(self):
        well = []
        with Receiver(lambda _: 200 if well else 500) as receiver:
            daemon = self.daemon(ROUTES.format(url=receiver.url))
            daemon.ask("POST", "/v1/outbox/order.placed", b"x", {"Idempotency-Key": "one"})
            self.assertEqual([receiver.next()[0] for _ in range(2)], [500, 500])
            shown = self.until(daemon, "/v1/messages/one",
                               lambda m: m["deliveries"][0]["state"] == "dead")
            self.assertEqual(len(shown["timeline"]), 2)
            daemon.wait_for_count("dead", 1)
            groups = daemon.ask("GET", "/v1/dead_letter_groups").json()["groups"]
            self.assertEqual([(group["topic"], group["count"]) for group in groups],
                             [("order.placed", 1)])
            well.append(True)
            answer = daemon.operate("POST", "/v1/messages/requeue", json.dumps(
                {"group": {key: groups[0][key] for key in ["topic", "handler", "error"]},
                 "operation_id": "again"}))
            self.assertEqual(answer.json(), {"operation_id": "again", "changed": 1,
                                             "finished": True, "dry_run": False})
            self.assertEqual(receiver.next()[0], 200)
            self.until(daemon, "/v1/messages/one", lambda m: m["deliveries"][0]["state"] == "done")

    def test_the_log_tells_the_status_of_a_receiver_that_fails_and_not_its_words(self):
        with Receiver(lambda request: (503, "words of the receiver")) as receiver:
            daemon = self.daemon(ROUTES.format(url=receiver.url))
            daemon.ask("POST", "/v1/outbox/order.placed", b"x", {"Idempotency-Key": "one"})
            line = daemon.wait_for(r" handler_retry (.*)")[1]
            self.assertIn("id=one", line)
            self.assertIn('cause="http 503"', line)
            self.assertNotIn("words", line)
            self.assertEqual(daemon.stop(), 0)

    def test_a_handler_that_has_used_a_third_of_its_lease_is_in_the_metrics(self):
        release = threading.Event()
        self.addCleanup(release.set)

        def answer(_):
            release.wait(LIMIT)
            return 200

        def wait_for_slow(count):
            end = time.monotonic() + LIMIT
            while time.monotonic() < end:
                text = daemon.ask("GET", "/metrics").body.decode()
                if f'\ntwinbox_handlers_slow{{box="outbox",store="main"}} {count}\n' in text:
                    return
            raise AssertionError(text)

        with Receiver(answer) as receiver:
            daemon = self.daemon(ROUTES.format(url=receiver.url) + 'lease = "1s"\n')
            daemon.ask("POST", "/v1/outbox/order.placed", b"x")
            daemon.wait_for(" handler_slow ")
            wait_for_slow(1)
            release.set()
            self.assertEqual(receiver.next()[0], 200)
            wait_for_slow(0)
            self.assertEqual(daemon.stop(), 0)

    def test_a_topic_without_a_route_is_dead_when_told_so(self):
        with Receiver() as receiver:
            daemon = self.daemon(ROUTES.format(url=receiver.url))
            daemon.ask("POST", "/v1/outbox/other", b"x", {"Idempotency-Key": "one"})
            self.until(daemon, "/v1/messages/one", lambda m: m["deliveries"][0]["state"] == "dead")

    def test_paused_means_nothing_is_claimed(self):
        with Receiver() as receiver:
            daemon = self.daemon(ROUTES.format(url=receiver.url))
            answer = daemon.operate("POST", "/v1/dispatch/pause", "{}")
            self.assertTrue(answer.json()["paused"])
            daemon.ask("POST", "/v1/outbox/order.placed", b"x", {"Idempotency-Key": "one"})
            daemon.signal(signal.SIGHUP)  # a reload does not forget it
            daemon.wait_for(" reloaded")
            self.assertTrue(daemon.ask("GET", "/v1/dispatch").json()["paused"])
            self.assertEqual(daemon.ask("GET", "/v1/messages/one").json()["deliveries"][0]["state"],
                             "ready")
            self.assertTrue(receiver.requests.empty())
            daemon.operate("POST", "/v1/dispatch/resume", "{}")
            self.assertEqual(receiver.next()[0], 200)
            self.assertEqual(daemon.operate("POST", "/v1/dispatch/pause",
                                            '{"store":"nowhere"}').status, 404)

    def test_a_receiver_that_is_gone_disables_its_route_until_it_is_enabled(self):
        gone = [True]
        with Receiver(lambda _: 410 if gone else 200) as receiver:
            daemon = self.daemon(ROUTES.format(url=receiver.url) + 'lease = "1s"\n')
            daemon.ask("POST", "/v1/outbox/order.placed", b"x", {"Idempotency-Key": "one"})
            self.assertEqual(receiver.next()[0], 410)
            self.until(daemon, "/v1/dispatch", lambda d: not d["routes"][0]["enabled"])
            daemon.signal(signal.SIGHUP)
            daemon.wait_for(" reloaded")
            self.assertFalse(daemon.ask("GET", "/v1/dispatch").json()["routes"][0]["enabled"])
            gone.clear()
            answer = daemon.operate("POST", "/v1/routes/orders/enable", "")
            self.assertTrue(answer.json()["routes"][0]["enabled"])
            self.assertEqual(receiver.next()[0], 200)
            self.assertEqual(daemon.operate("POST", "/v1/routes/none/enable", "").status, 404)

    def test_a_receiver_at_a_secret_address_that_is_gone_disables_its_route(self):
        with Receiver(lambda _: 410) as receiver:
            url = receiver.url + "services/T0K3N/S3CR3T?key=P455"
            daemon = self.daemon(ROUTES.format(url="env:HOOK"), environment={"HOOK": url})
            daemon.ask("POST", "/v1/outbox/order.placed", b"x", {"Idempotency-Key": "one"})
            self.until(daemon, "/v1/messages/one",
                       lambda m: m["deliveries"][0]["last_error"]
                       or not daemon.ask("GET", "/v1/dispatch").json()["routes"][0]["enabled"])
            route = daemon.ask("GET", "/v1/dispatch").json()["routes"][0]
            self.assertEqual((route["name"], route["enabled"]), ("orders", False))
            self.assertIn("127.0.0.1", route["reason"])
            self.assertIn("HTTP 410", route["reason"])
            shown = daemon.ask("GET", "/v1/messages/one").json()
            self.assertEqual((shown["deliveries"][0]["attempts"], shown["timeline"]), (0, []))
            told = json.dumps([route, shown, daemon.lines])
            for secret in ["T0K3N", "S3CR3T", "P455"]:
                self.assertNotIn(secret, told)
            self.assertEqual(receiver.requests.qsize(), 1)

    def test_what_is_paused_or_disabled_stays_so_over_a_restart_and_kill_9(self):
        gone = [True]
        with Receiver(lambda _: 410 if gone else 200) as receiver:
            config = ROUTES.format(url=receiver.url) + 'lease = "1s"\n'
            daemon = self.daemon(config)
            daemon.ask("POST", "/v1/outbox/order.placed", b"x", {"Idempotency-Key": "one"})
            self.until(daemon, "/v1/dispatch", lambda d: not d["routes"][0]["enabled"])
            daemon.operate("POST", "/v1/dispatch/pause", '{"topic":"order.paid"}')
            before = daemon.ask("GET", "/v1/dispatch").json()
            self.assertIn("410", before["routes"][0]["reason"])
            daemon.kill()
            daemon.stop()
            token, folder = daemon.token, daemon.folder
            daemon = Daemon(config, folder=folder).start()
            self.addCleanup(daemon.__exit__)
            daemon.token = token
            after = daemon.ask("GET", "/v1/dispatch").json()
            self.assertEqual(after["paused_topics"], ["order.paid"])
            self.assertEqual((after["routes"][0]["enabled"], after["routes"][0]["reason"]),
                             (False, before["routes"][0]["reason"]))
            gone.clear()
            while not receiver.requests.empty():
                self.assertEqual(receiver.next()[0], 410)
            daemon.operate("POST", "/v1/routes/orders/enable", "")
            self.assertEqual(receiver.next()[0], 200)
            daemon.operate("POST", "/v1/dispatch/resume", '{"topic":"order.paid"}')
            self.assertEqual(daemon.stop(), 0)
            daemon = Daemon(config, folder=folder).start()
            self.addCleanup(daemon.__exit__)
            after = daemon.ask("GET", "/v1/dispatch").json()
            self.assertEqual((after["paused_topics"], after["routes"][0]["enabled"]), ([], True))

    def test_a_damaged_file_of_switches_is_put_aside(self):
        with Receiver() as receiver:
            daemon = Daemon(ROUTES.format(url=receiver.url))
            (daemon.folder / "twinbox.dispatch_state").write_text('{"version":1,"paused":"yes"}')
            with daemon:
                self.assertTrue(any("dispatch_state_unusable" in line for line in daemon.lines))
                self.assertFalse(daemon.ask("GET", "/v1/dispatch").json()["paused"])
                self.assertTrue((daemon.folder / "twinbox.dispatch_state.damaged").exists())
                self.assertEqual(daemon.stop(), 0)

    def test_no_status_is_dead_at_once_where_the_list_is_empty(self):
        with Receiver(lambda request: 422) as receiver:
            config = ROUTES.format(url=receiver.url).replace("[[route]]", "dead_on = []\n\n[[route]]")
            daemon = self.daemon(config)
            daemon.ask("POST", "/v1/outbox/order.placed", b"1", {"Idempotency-Key": "one"})
            found = self.until(daemon, "/v1/messages/one",
                               lambda m: m["deliveries"][0]["state"] == "dead")
            self.assertEqual(found["deliveries"][0]["reason"], "max_attempts")
            self.assertEqual(found["deliveries"][0]["attempts"], 2)

    def test_an_address_from_the_environment_is_in_no_error_and_no_log(self):
        with Receiver(lambda request: 500) as receiver:
            url = receiver.url + "services/T0K3N/S3CR3T?key=P455"
            daemon = self.daemon(ROUTES.format(url="env:HOOK"), environment={"HOOK": url})
            daemon.ask("POST", "/v1/outbox/order.placed", b"1", {"Idempotency-Key": "one"})
            found = self.until(daemon, "/v1/messages/one",
                               lambda m: m["deliveries"][0]["state"] == "dead")
            self.assertIn("127.0.0.1", found["deliveries"][0]["last_error"])
            told = json.dumps([found, daemon.ask("GET", "/v1/dead_letter_groups").json(), daemon.lines])
            for secret in ["T0K3N", "S3CR3T", "P455"]:
                self.assertNotIn(secret, told)
            self.assertEqual(daemon.stop(), 0)

    def test_an_address_that_its_receiver_repeats_is_in_no_error_and_no_log(self):
        for path, answer in [("/hooks/AbCdEfGhIjKl", "Cannot POST {path}"),
                             ("/hooks/abcdefghijkl", "Cannot POST {path}"),
                             ("/hooks/abcdefghijkl", "there is no hook {last}"),
                             ("/hooks/AbCdEfGh", "there is no hook {last}")]:
            words = answer.format(path=path, last=path.rsplit("/", 1)[1])
            with self.subTest(words), Receiver(lambda request, text=words: (404, text)) as receiver:
                daemon = self.daemon(ROUTES.format(url="env:HOOK"),
                                     environment={"HOOK": receiver.url.rstrip("/") + path})
                daemon.ask("POST", "/v1/outbox/order.placed", b"1", {"Idempotency-Key": "one"})
                found = self.until(daemon, "/v1/messages/one", lambda m: m["deliveries"][0]["state"] == "dead")
                self.assertIn(words.split("/")[0].split(" h")[0], found["deliveries"][0]["last_error"])
                groups = self.until(daemon, "/v1/dead_letter_groups", lambda g: g["groups"])
                self.assertNotIn(path.rsplit("/", 1)[1], json.dumps([found, groups, daemon.lines]))
                self.assertEqual(daemon.stop(), 0)

    def test_a_reload_changes_routes_and_keeps_what_cannot_change(self):
        with Receiver() as first, Receiver() as second:
            daemon = self.daemon(ROUTES.format(url=first.url))
            daemon.ask("POST", "/v1/outbox/order.placed", b"1", {"Idempotency-Key": "one"})
            self.assertEqual(first.next()[3], b"1")
            self.until(daemon, "/v1/messages/one", lambda m: m["deliveries"][0]["state"] == "done")
            daemon.configure(ROUTES.format(url=second.url) +
                             '[store.other]\nurl = "sqlite:other.db"\n[server]\nio_threads = 3\n')
            daemon.signal(signal.SIGHUP)
            self.assertEqual(daemon.wait_for(r"reload_needs_restart key=(\w+)")[1], "server")
            self.assertEqual(daemon.wait_for(r"reload_needs_restart key=(\w+)")[1], "store")
            daemon.wait_for(" reloaded")
            daemon.ask("POST", "/v1/outbox/order.placed", b"2")
            self.assertEqual(second.next()[3], b"2")
            daemon.configure(ROUTES.format(url=first.url) + '[store.other]\nurl = "sqlite:other.db"\n'
                             '[webhook.pay]\nscheme = "none"\nstore = "other"\n')
            daemon.signal(signal.SIGHUP)
            self.assertIn("webhook.pay.store: the inbox of [store.other] is only served after a restart",
                          daemon.wait_for(r"reload_failed (.*)")[1])
            daemon.configure("[server\n")
            daemon.signal(signal.SIGHUP)
            self.assertIn("twinbox.toml:1", daemon.wait_for(r"reload_failed (.*)")[1])
            daemon.ask("POST", "/v1/outbox/order.placed", b"3")
            self.assertEqual(second.next()[3], b"3")

    def test_a_reload_lets_a_delivery_that_is_under_way_end(self):
        arrived, answer = threading.Event(), threading.Event()

        def slow(_):
            arrived.set()
            answer.wait(LIMIT)
            return 200

        with Receiver(slow) as receiver:
            daemon = self.daemon(ROUTES.format(url=receiver.url),
                                 environment={"TWINBOX_DISPATCH_GRACE": "0s"})  # is for a stop
            daemon.ask("POST", "/v1/outbox/order.placed", b"1", {"Idempotency-Key": "one"})
            self.assertTrue(arrived.wait(LIMIT))
            daemon.signal(signal.SIGHUP)
            daemon.wait_for(" reloaded")
            self.until(daemon, "/v1/workers", lambda answer: len(answer["workers"]) == 2)
            answer.set()
            shown = self.until(daemon, "/v1/messages/one",
                               lambda m: m["deliveries"][0]["state"] == "done")
            self.assertEqual((shown["deliveries"][0]["attempts"], shown["timeline"]), (0, []))
            self.assertEqual(receiver.requests.qsize(), 1)

    def test_a_stop_lets_a_delivery_that_is_under_way_be_answered_within_the_grace(self):
        answer = threading.Event()
        self.addCleanup(answer.set)

        def slow(_):
            answer.wait(LIMIT)
            return 200

        with Receiver(slow) as receiver:
            one_at_a_time = ROUTES.replace("allow =", 'per_host = 1\nallow =')
            daemon = self.daemon(one_at_a_time.format(url=receiver.url),
                                 environment={"TWINBOX_DISPATCH_GRACE": "45s"})
            for key in ["one", "two"]:
                daemon.ask("POST", "/v1/outbox/order.placed", b"1", {"Idempotency-Key": key})
                self.until(daemon, f"/v1/messages/{key}",
                           lambda m: m["deliveries"][0]["state"] == "leased")
            daemon.signal(signal.SIGTERM)
            # The one that waits for its turn is released: the HTTP client has been told to stop.
            store = SqliteStore(daemon.folder)
            end = time.monotonic() + LIMIT
            while store.leased() != {"one"}:
                self.assertLess(time.monotonic(), end)
            answer.set()
            self.assertEqual(daemon.stop(), 0)
            self.assertEqual(store.done(), {"one"})
            self.assertEqual(receiver.requests.qsize(), 1)
            self.assertFalse(any("shutdown_forced" in line for line in daemon.lines))

    def test_a_reload_gives_the_only_slot_to_the_next_dispatcher_in_time(self):
        arrived, answer = threading.Event(), threading.Event()
        self.addCleanup(answer.set)

        def slow_at_first(request):
            if request.body == b"1" and not arrived.is_set():
                arrived.set()
                answer.wait()
            return 200

        with Receiver(slow_at_first) as receiver:
            patient = ROUTES.replace("allow =", 'timeout = "1h"\nallow =')
            daemon = self.daemon(patient.format(url=receiver.url),
                                 environment={"TWINBOX_DISPATCH_PROCESSORS": "1",
                                              "TWINBOX_DISPATCH_GRACE": "0s"})
            daemon.ask("POST", "/v1/outbox/order.placed", b"1", {"Idempotency-Key": "one"})
            self.assertTrue(arrived.wait(LIMIT))
            daemon.signal(signal.SIGHUP)
            daemon.wait_for(" reloaded")
            daemon.ask("POST", "/v1/outbox/order.placed", b"2")
            # Broken off, the first one comes again: it waits for nobody's answer any more.
            self.assertEqual({receiver.next()[3], receiver.next()[3]}, {b"1", b"2"})
            self.until(daemon, "/v1/messages/one", lambda m: m["deliveries"][0]["state"] == "done")

    def test_an_event_is_handled_within_the_request(self):
        well = []
        with Receiver(lambda _: 200 if well else 500) as receiver:
            daemon = self.daemon(ROUTES.format(url=receiver.url) +
                                 '[[event]]\nname = "order.paid"\nversion = 2\nmode = "inline"\n'
                                 'sink = "there"\n[[event]]\nname = "order.seen"\n')
            event = {"ce-specversion": "1.0", "ce-id": "e1", "ce-source": "/shop",
                     "ce-type": "order.paid.v2", "Content-Type": "application/json"}
            answer = daemon.ask("POST", "/events/order.paid/v2", b"{}", event)
            self.assertEqual(answer.status, 500, answer.body)
            well.append(True)
            self.until(daemon, "/v1/messages/e1?box=inbox",
                       lambda m: m["deliveries"][0]["state"] == "done")
            answer = daemon.ask("POST", "/events/order.paid/v2", b"{}", event)
            self.assertEqual(answer.status, 200, answer.body)
            seen = event | {"ce-id": "e2", "ce-type": "order.seen.v1"}
            self.assertEqual(daemon.ask("POST", "/events/order.seen/v1", b"{}", seen).status, 202)
            self.assertEqual(daemon.ask("POST", "/events/order.seen/v9", b"{}", seen).status, 404)
            batch = json.dumps([{"specversion": "1.0", "id": f"b{n}", "source": "/shop",
                                 "type": "order.seen.v1"} for n in range(3)])
            answer = daemon.ask("POST", "/v1/events", batch,
                                {"Content-Type": "application/cloudevents-batch+json"})
            self.assertEqual((answer.status, len(answer.json()["results"])), (202, 3))

    def test_what_is_switched_off_is_not_handled_within_a_request(self):
        with Receiver() as receiver:
            daemon = self.daemon(ROUTES.format(url=receiver.url) +
                                 '[[event]]\nname = "order.paid"\nmode = "inline"\nsink = "there"\n')
            event = {"ce-specversion": "1.0", "ce-source": "/shop", "ce-type": "order.paid.v1",
                     "Content-Type": "application/json"}
            dispatch_state = [("dispatch/pause", "dispatch/resume", b""),
                        ("dispatch/pause", "dispatch/resume", b'{"store":"main"}'),
                        ("dispatch/pause", "dispatch/resume", b'{"topic":"order.paid.v1"}'),
                        ("routes/event%20order.paid.v1/disable", "routes/event%20order.paid.v1/enable", b"")]
            for number, (off, on, body) in enumerate(dispatch_state):
                send = lambda: daemon.ask("POST", "/events/order.paid/v1", b"{}", event | {"ce-id": f"e{number}"})
                self.assertEqual(daemon.operate("POST", f"/v1/{off}", body).status, 200)
                for _ in range(2):
                    answer = send()
                    self.assertEqual(answer.status, 503, answer.body)
                    self.assertIn("the event is stored", answer.json()["detail"])
                    self.assertEqual(answer.headers["Retry-After"], "5")
                self.assertEqual(receiver.requests.qsize(), 0, off)
                self.assertEqual(daemon.operate("POST", f"/v1/{on}", body).status, 200)
                while (answer := send()).status == 503:  # the dispatcher may have been faster
                    pass
                self.assertEqual(answer.status, 200, answer.body)
                receiver.next()

    def test_a_sidecar_is_told_what_to_deliver(self):
        daemon = self.daemon('[[subscription]]\nname = "broker"\ntopic = "orders"\n'
                             'route = "/sidecar/orders"\nstored = "order.placed"\n')
        listed = daemon.ask("GET", "/dapr/subscribe").json()
        self.assertEqual([(one["pubsubname"], one["topic"]) for one in listed],
                         [("broker", "orders")])
        event = json.dumps({"specversion": "1.0", "id": "s1", "source": "/x", "type": "t",
                            "data": {"a": 1}})
        for _ in range(2):
            answer = daemon.ask("POST", "/sidecar/orders", event,
                                {"Content-Type": "application/cloudevents+json"})
            self.assertEqual((answer.status, answer.json()), (200, {"status": "SUCCESS"}))
        shown = daemon.ask("GET", "/v1/messages/s1?box=inbox").json()
        self.assertEqual(shown["topic"], "order.placed")

    def test_EVB_24_a_trace_goes_through(self):
        with Receiver() as receiver, Receiver() as collector:
            daemon = self.daemon(ROUTES.format(url=receiver.url) +
                                 f'[tracing]\nendpoint = "{collector.url}v1/traces"\n')
            trace = "0af7651916cd43dd8448eb211c80319c"
            daemon.ask("POST", "/v1/outbox/order.placed", b"x",
                       {"traceparent": f"00-{trace}-b7ad6b7169203331-01"})
            received = receiver.next()[2]
            self.assertEqual(received["traceparent"].split("-")[1], trace)
            spans = {}
            while not any(name.startswith("deliver") for name in spans) or \
                    "POST /v1/outbox/{topic}" not in spans:
                for span in spans_in(collector.next()[3]):
                    spans[span["name"]] = span
            inward, outward = spans["POST /v1/outbox/{topic}"], spans["deliver order.placed"]
            self.assertEqual((inward["traceId"], inward["parentSpanId"]),
                             (trace, "b7ad6b7169203331"))
            self.assertEqual((outward["traceId"], outward["parentSpanId"]),
                             (trace, inward["spanId"]))
            # What the receiver makes of it hangs below a span that the collector has.
            self.assertEqual(received["traceparent"].split("-")[2], outward["spanId"])
            self.assertEqual(daemon.stop(), 0)

    def test_a_collector_that_is_away_costs_nothing_but_its_spans(self):
        daemon = self.daemon('[tracing]\nendpoint = "http://127.0.0.1:1/v1/traces"\n')
        self.assertEqual(daemon.ask("POST", "/v1/outbox/a", b"x").status, 202)
        daemon.wait_for("spans_dropped")
        end = time.monotonic() + LIMIT  # they are counted a moment after the line
        while b"twinbox_spans_dropped_total 0" in daemon.ask("GET", "/metrics").body:
            self.assertLess(time.monotonic(), end)
        self.assertEqual(daemon.stop(), 0)


if __name__ == "__main__":
    unittest.main()
