"""What operators do: once, resumable, seen in the audit, refused to those who may only look."""
import hashlib
import json
import pathlib
import re
import threading
import time
import unittest

from daemon import LIMIT, Daemon, new_folder
from dead_letters import make_dead
from store import PostgresStore, SqliteStore

CARD = {"card": {"number": "4711 0815", "holder": "A. Person"}, "amount": 3}


class Operations(unittest.TestCase):
    where = SqliteStore

    def setUp(self):
        folder = pathlib.Path(new_folder("twinbox_acts_"))
        self.store = self.where(folder)
        self.addCleanup(self.store.remove)
        self.daemon = Daemon(self.store.config +
                             '[dashboard]\nredact = ["/card/number"]\n'
                             'trace_link = "https://traces.example/{trace_id}?x"\n',
                             folder=folder, environment=self.store.environment).start()
        self.addCleanup(self.daemon.__exit__)
        self.daemon.wait_for_token()

    def enqueue(self, key, body=b"x", headers=None):
        answer = self.daemon.ask("POST", "/v1/outbox/a", body,
                                 {"Idempotency-Key": key, **(headers or {})})
        self.assertEqual(answer.status, 202)
        return self.show(key)

    def show(self, key, query=""):
        answer = self.daemon.ask("GET", f"/v1/messages/{key}{query}")
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json()

    def operate(self, verb, status=200, **body):
        answer = self.daemon.operate("POST", f"/v1/messages/{verb}", json.dumps(body))
        self.assertEqual(answer.status, status, answer.body)
        return answer.json()

    def test_postpone_by_a_delay_and_until_a_time(self):
        number = self.enqueue("one")["number"]
        deliveries = [{"number": number}]
        self.assertEqual(self.operate("postpone", deliveries=deliveries, delay="1h")["changed"], 1)
        self.assertEqual(self.show("one")["deliveries"][0]["state"], "scheduled")
        self.operate("postpone", deliveries=deliveries, until="2040-01-31T12:00:00Z")
        self.assertEqual(self.show("one")["deliveries"][0]["visible_at"][:19], "2040-01-31T12:00:00")
        self.operate("postpone", filter={"state": "scheduled"}, until="2020-01-31T12:00:00Z")
        self.assertEqual(self.show("one")["deliveries"][0]["state"], "ready")
        for body in [{}, {"delay": "1h", "until": "2040-01-31T12:00:00Z"}, {"delay": "soon"}]:
            self.operate("postpone", 400, deliveries=deliveries, **body)
        self.operate("postpone", 400, group={"topic": "a"}, delay="1h")
        self.operate("requeue", 400, deliveries=deliveries, until="2040-01-31T12:00:00Z")

    def test_an_edit_replaces_the_content_that_was_looked_at(self):
        before = self.enqueue("one", b'{"order":1}')
        edit = {"number": before["number"], "content_version": before["content_version"],
                "payload": '{"order":2}', "reason": "typing error", "operation_id": "e1"}
        done = self.operate("edit", **edit)
        self.assertEqual((done["operation_id"], done["changed"]), ("e1", 1))
        after = self.show("one")
        self.assertEqual(after["payload"], '{"order":2}')
        self.assertEqual(after["content_version"], done["content_version"])
        self.assertEqual(self.operate("edit", **edit)["changed"], 1)  # the same again: the same answer
        self.operate("edit", 422, **{**edit, "payload": "other"})
        refused = self.operate("edit", 409, **{**edit, "operation_id": "e2"})
        self.assertIn(f"version {after['content_version']}", refused["detail"])
        self.operate("edit", 404, **{**edit, "number": 4711, "operation_id": "e3"})
        self.operate("edit", 400, **{**edit, "payload_base64": "eA=="})
        self.operate("edit", 400, number=1, content_version=1)
        binary = {**edit, "content_version": after["content_version"], "operation_id": "e4",
                  "payload_base64": "//4="}
        del binary["payload"]
        self.operate("edit", **binary)
        shown = self.show("one")
        self.assertEqual((shown["payload"], shown["payload_encoding"]), ("//4=", "base64"))

    def test_hidden_parts_are_shown_to_nobody_and_never_lost_by_an_edit(self):
        shown = self.enqueue("one", json.dumps(CARD).encode())
        self.assertEqual(shown["redacted"], ["/card/number"])
        self.assertNotIn("4711", shown["payload"])
        self.assertIn("A. Person", shown["payload"])
        self.assertEqual(shown["payload_size"], len(json.dumps(CARD)))
        edit = {"number": shown["number"], "content_version": shown["content_version"]}
        refused = self.operate("edit", 422, payload=shown["payload"], **edit)
        self.assertIn("/card/number", refused["detail"])
        self.operate("edit", payload=json.dumps({**CARD, "amount": 4}), **edit)
        self.assertEqual(json.loads(self.store.payload("one")), {**CARD, "amount": 4})

    def test_an_open_message_shows_its_age(self):
        shown = self.enqueue("one", b"x")
        self.assertGreaterEqual(shown["open_seconds"], 0)
        self.operate("postpone", until="2999-01-01T00:00:00Z",
                 deliveries=[{"number": shown["number"], "handler": ""}])
        again = self.show("one")
        self.assertEqual(again["deliveries"][0]["state"], "scheduled")
        self.assertGreater(again["open_seconds"], shown["open_seconds"])
        self.operate("discard", deliveries=[{"number": shown["number"], "handler": ""}], reason="test")
        self.assertIsNone(self.show("one")["open_seconds"])

    def test_a_large_payload_is_cut(self):
        self.enqueue("one", "ä".encode() * 100_000)
        shown = self.show("one")
        self.assertEqual(len(shown["payload"].encode()), 65536)
        self.assertEqual((shown["payload_size"], shown["payload_truncated"]), (200_000, True))
        shown = self.show("one", "?payload_limit=3")
        self.assertEqual((shown["payload"], shown["payload_truncated"]), ("ä", True))
        shown = self.show("one", "?payload_limit=1048576")
        self.assertEqual((len(shown["payload"]), shown["payload_truncated"]), (100_000, False))
        answer = self.daemon.ask("GET", "/v1/messages/one?payload_limit=1048577")
        self.assertEqual(answer.status, 400)

    def test_the_trace_of_a_message_has_a_link(self):
        trace = "4bf92f3577b34da6a3ce929d0e0e4736"
        shown = self.enqueue("one", headers={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"})
        self.assertEqual(shown["trace_id"], trace)
        self.assertEqual(shown["trace_link"], f"https://traces.example/{trace}?x")
        self.assertIsNone(self.enqueue("two")["trace_link"])

    def test_everything_is_in_the_audit(self):
        for key in ["one", "two", "three"]:
            self.enqueue(key)
        self.operate("postpone", filter={"topic": "a"}, delay="1h", reason="later", operation_id="p")
        self.operate("discard", filter={"state": "scheduled"}, reason="no", operation_id="d")
        first = self.daemon.ask("GET", "/v1/audit?limit=1").json()
        [newest] = first["entries"]
        self.assertEqual((newest["action"], newest["actor"], newest["reason"], newest["affected"],
                          newest["operation_id"], newest["finished"]),
                         ("discard", "first", "no", 3, "d", True))
        rest = self.daemon.ask("GET", f"/v1/audit?after={first['next']}").json()
        self.assertEqual([entry["action"] for entry in rest["entries"]], ["postpone"])
        self.assertIsNone(rest["next"])
        shown = self.daemon.ask("GET", "/v1/operations/p").json()
        self.assertEqual((shown["action"], shown["changed"], shown["finished"]),
                         ("postpone", 3, True))
        self.assertEqual(self.daemon.ask("GET", "/v1/operations/none").status, 404)
        self.assertEqual(self.daemon.ask("GET", "/v1/operations/p?box=inbox").status, 404)
        self.assertEqual(self.daemon.ask("GET", "/v1/audit?limit=x").status, 400)

    def test_hostile_texts_stay_texts(self):
        hostile = '</script><img src=x onerror=alert(1)>"\\\u202egnp.exe\x07\u2028' + "y" * 900_000
        answer = self.daemon.ask("POST", "/v1/outbox/%3Cscript%3E%22%0A", hostile.encode(),
                                 {"Idempotency-Key": "<b>\"&"})
        self.assertEqual(answer.status, 202, answer.body)
        self.operate("discard", filter={"state": "ready"}, reason=hostile[:200],
                 operation_id=hostile[:50])
        shown = self.daemon.ask("GET", "/v1/messages/%3Cb%3E%22%26?payload_limit=1048576")
        self.assertEqual(shown.headers["Content-Type"].split(";")[0], "application/json")
        self.assertEqual(shown.headers["X-Content-Type-Options"], "nosniff")
        self.assertEqual(shown.json()["payload"], hostile)
        self.assertEqual(shown.json()["topic"], '<script>"\n')
        audit = self.daemon.ask("GET", "/v1/audit").json()["entries"][0]
        self.assertEqual(audit["reason"], hostile[:200])
        self.assertEqual(audit["operation_id"], hostile[:50])


@unittest.skipUnless(PostgresStore.url, "no PostgreSQL is there")
class OperationsOnPostgres(Operations):
    where = PostgresStore


class Interrupted(unittest.TestCase):
    where = SqliteStore
    COUNT = 3000

    def test_a_bulk_operation_that_was_cut_off_resumes_by_its_id(self):
        folder = pathlib.Path(new_folder("twinbox_interrupted_"))
        store = self.where(folder)

        def serve():
            return Daemon(store.config, store.environment, folder)

        with serve() as daemon:
            self.addCleanup(store.remove)
            daemon.wait_for_token()
            self.assertEqual(daemon.stop(), 0)
        store.make_dead(self.COUNT)
        body = json.dumps({"filter": {"state": "dead"}, "reason": "again", "operation_id": "op"})
        token = {"Authorization": f"Bearer {daemon.token}"}
        with store.stuck_at(self.COUNT // 2), serve() as first:
            def ask():
                try:
                    first.ask("POST", "/v1/messages/requeue", body, token)
                except OSError:
                    pass  # it is killed meanwhile
            asking = threading.Thread(target=ask)
            asking.start()
            while True:
                progress = first.ask("GET", "/v1/operations/op")
                if progress.status == 200 and progress.json()["changed"] > 0:
                    break
            self.assertFalse(progress.json()["finished"])
            first.kill()
            asking.join()
        store.make_dead(5, error="later", begin=10 ** 6)
        with serve() as second:
            cut = second.ask("GET", "/v1/operations/op").json()
            self.assertFalse(cut["finished"])
            self.assertTrue(0 < cut["changed"] < self.COUNT, cut)
            answer = second.ask("POST", "/v1/messages/requeue", body, token)
            self.assertIn(answer.status, (200, 202), answer.body)
            while not (shown := second.ask("GET", "/v1/operations/op").json())["finished"]:
                pass
            self.assertEqual(shown["changed"], self.COUNT)
            self.assertEqual(second.ask("POST", "/v1/messages/requeue", body, token).json(),
                             {"operation_id": "op", "changed": self.COUNT, "finished": True,
                              "dry_run": False})
            second.wait_for_count("ready", self.COUNT)
            second.wait_for_count("dead", 5)  # what died later was not meant
            self.assertEqual(second.stop(), 0)


@unittest.skipUnless(PostgresStore.url, "no PostgreSQL is there")
class InterruptedOnPostgres(Interrupted):
    where = PostgresStore


class Many(unittest.TestCase):
    def test_100_000_dead_letters_are_grouped_without_asking_for_them(self):
        daemon = Daemon()
        with daemon:
            self.assertEqual(daemon.stop(), 0)
        make_dead(daemon.folder / "twinbox.db", 100_000, topics=20)
        again = Daemon(folder=daemon.folder)
        with again:
            again.wait_for_count("dead", 100_000)
            groups = again.ask("GET", "/v1/dead_letter_groups").json()["groups"]
            self.assertEqual(sum(group["count"] for group in groups), 100_000)
            self.assertEqual(len(groups), 20)
            self.assertEqual(again.stop(), 0)
            [took] = [int(found[1]) for line in again.lines
                      if (found := re.search(r"target=/v1/dead_letter_groups .*microseconds=(\d+)", line))]
            print(f"/v1/dead_letter_groups with 100 000 dead letters: {took} microseconds of server time")


class Roles(unittest.TestCase):
    def test_who_may_only_look_is_refused_at_every_operation(self):
        daemon = Daemon(local=False)
        (daemon.folder / "twinbox.tokens").write_text("".join(
            f"{role} {role} {hashlib.sha256(role.encode()).hexdigest()}\n"
            for role in ["send", "read", "operate"]))
        with daemon:
            document = daemon.ask("GET", "/openapi.json").json()
            session = daemon.ask("POST", "/v1/login", '{"token":"read"}').headers["Set-Cookie"]
            operations, looks = set(), set()
            for path, methods in document["paths"].items():
                for method, described in methods.items():
                    if {"token": []} not in described["security"]:
                        continue
                    target = re.sub(r"\{.*?\}", "x", path)
                    answers = {role: daemon.ask(method.upper(), target, "{", {
                        "Authorization": f"Bearer {role}"} if role else {}).status
                        for role in ["", "send", "read"] if path != "/v1/overview/stream" or role != "read"}
                    self.assertEqual(answers[""], 401, path)
                    if {} not in described["security"]:
                        operations.add(path)
                        self.assertEqual((answers["read"], answers["send"]), (403, 403), path)
                        cookie = daemon.ask(method.upper(), target, "{", {
                            "Cookie": session.split(";")[0], "Origin": f"http://127.0.0.1:{daemon.port}"})
                        self.assertEqual(cookie.status, 403, path)
                    elif answers["send"] == 403:
                        looks.add(path)
                        self.assertNotIn(answers.get("read", 200), (401, 403), path)
            self.assertEqual(operations, {
                "/v1/messages/requeue", "/v1/messages/discard", "/v1/messages/postpone",
                "/v1/messages/edit", "/v1/dispatch/pause", "/v1/dispatch/resume",
                "/v1/routes/{name}/enable", "/v1/routes/{name}/disable"})
            self.assertEqual(looks, {
                "/metrics", "/v1/overview", "/v1/stores", "/v1/messages", "/v1/messages/{id}",
                "/v1/dead_letter_groups", "/v1/history", "/v1/overview/stream", "/v1/workers", "/v1/audit",
                "/v1/operations/{id}", "/v1/dispatch"})
            self.assertEqual(daemon.stop(), 0)


class Workers(unittest.TestCase):
    def test_who_works_here_and_what_was_tidied(self):
        config = '[sink.log]\ntype = "log"\n[[route]]\nname = "all"\nsink = "log"\n'
        with Daemon(config) as daemon:
            wanted = {(box, chore) for box in ["outbox", "inbox"] for chore in ["reap", "prune"]}
            end = time.monotonic() + LIMIT
            while True:
                answer = daemon.ask("GET", "/v1/workers").json()
                done = {(chore["box"], chore["chore"]) for chore in answer["housekeeping"]
                        if chore["end"] == "done"}
                held = {(lease["box"], lease["name"]) for lease in answer["leases"]}
                if wanted <= done and ("outbox", "housekeeping.prune") in held:
                    break
                self.assertLess(time.monotonic(), end, answer)
            self.assertEqual(daemon.stop(), 0)


if __name__ == "__main__":
    unittest.main()
