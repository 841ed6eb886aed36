"""Looking into the boxes, and acting on what lies there."""
import contextlib
import json
import os
import re
import sqlite3
import subprocess
import time
import unittest

from daemon import LIMIT, Daemon, new_folder
from dead_letters import make_dead


class Operations(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon().start()
        self.addCleanup(self.daemon.__exit__)
        self.daemon.wait_for_token()

    def enqueue(self, count, topic="order.placed"):
        connection = self.daemon.connect()
        for number in range(count):
            answer = self.daemon.ask("POST", f"/v1/outbox/{topic}", b"x",
                                     {"Idempotency-Key": f"{topic}-{number}"}, connection)
            self.assertEqual(answer.status, 202)
        connection.close()

    def operate(self, verb, **body):
        answer = self.daemon.operate("POST", f"/v1/messages/{verb}", json.dumps(body))
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json()

    def test_pages_show_everything_once_newest_first(self):
        self.enqueue(7)
        seen, after = [], ""
        while True:
            page = self.daemon.ask("GET", f"/v1/messages?limit=3{after}").json()
            seen += [message["id"] for message in page["messages"]]
            if page["next"] is None:
                break
            after = f"&after={page['next']}"
        self.assertEqual(seen, [f"order.placed-{number}" for number in reversed(range(7))])

    def test_the_same_filter_views_and_operates(self):
        self.enqueue(3)
        self.enqueue(2, "order.paid")
        listed = self.daemon.ask("GET", "/v1/messages?topic=order.paid&state=ready").json()
        self.assertEqual(len(listed["messages"]), 2)
        wanted = {"filter": {"topic": "order.paid", "state": "ready"}, "reason": "test"}
        self.assertEqual(self.operate("discard", dry_run=True, **wanted),
                         {"operation_id": None, "changed": 2, "finished": True, "dry_run": True})
        done = self.operate("discard", **wanted)
        self.assertTrue(done.pop("operation_id"))
        self.assertEqual(done, {"changed": 2, "finished": True, "dry_run": False})
        self.assertEqual(self.operate("discard", **wanted)["changed"], 0)
        self.daemon.wait_for_count("ready", 3)
        counts = self.daemon.ask("GET", "/v1/stores").json()["stores"][0]["boxes"][0]["counts"]
        self.assertEqual(counts["ready"], 3)

    def test_a_dry_run_of_a_discard_needs_no_reason(self):
        self.enqueue(1)
        wanted = {"filter": {"state": "ready"}}
        self.assertEqual(self.operate("discard", dry_run=True, **wanted)["changed"], 1)
        answer = self.daemon.operate("POST", "/v1/messages/discard", json.dumps(wanted))
        self.assertEqual((answer.status, answer.json()["detail"]),
                         (400, "reason: is required to discard"))

    def test_an_operation_id_counts_once(self):
        self.enqueue(2)
        number = self.daemon.ask("GET", "/v1/messages").json()["messages"][0]["number"]
        wanted = {"deliveries": [{"number": number, "handler": ""}], "reason": "test",
                  "operation_id": "op-1"}
        self.assertEqual(self.operate("discard", **wanted)["changed"], 1)
        self.assertEqual(self.operate("discard", **wanted)["changed"], 1)
        other = self.daemon.operate("POST", "/v1/messages/discard", json.dumps(
            {"filter": {"state": "ready"}, "reason": "test", "operation_id": "op-1"}))
        self.assertEqual(other.status, 422)
        shown = self.daemon.ask("GET", "/v1/messages?state=discarded").json()["messages"]
        self.assertEqual(len(shown), 1)

    def test_what_is_not_there(self):
        self.assertEqual(self.daemon.ask("GET", "/v1/messages/nobody").status, 404)
        self.assertEqual(self.daemon.ask("GET", "/v1/messages?box=mailbox").status, 400)
        self.assertEqual(self.daemon.ask("GET", "/v1/messages?store=x").status, 404)
        self.assertEqual(self.daemon.ask("GET", "/v1/messages?limit=0").status, 400)
        self.assertEqual(self.daemon.ask("GET", "/v1/messages?colour=red").status, 400)
        self.assertEqual(self.daemon.ask("GET", "/v1/messages?error_contains=%ff").status, 400)
        self.assertEqual(self.daemon.ask("GET", "/v1/operations/%ff").status, 404)

    def test_metrics_are_text_for_prometheus(self):
        self.enqueue(3)
        self.daemon.wait_for_count("ready", 3)
        answer = self.daemon.ask("GET", "/metrics")
        self.assertIn("version=0.0.4", answer.headers["Content-Type"])
        series, types = {}, {}
        for line in answer.body.decode().splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split()
                self.assertNotIn(name, types)
                types[name] = kind
            elif line and not line.startswith("#"):
                found = re.fullmatch(r'([a-z_]+)(\{.*\})? (\S+)', line)
                self.assertTrue(found, line)
                series[found[1] + (found[2] or "")] = float(found[3])
        accepted = [value for name, value in series.items()
                    if name.startswith("twinbox_http_requests_total") and 'status="202"' in name]
        self.assertEqual(accepted, [3])
        ready = [value for name, value in series.items()
                 if name.startswith("twinbox_deliveries") and 'state="ready"' in name
                 and 'box="outbox"' in name]
        self.assertEqual(ready, [3])
        self.assertEqual(types["twinbox_http_request_seconds"], "histogram")


class Health(unittest.TestCase):
    def test_EVB_19_health_follows_the_backlog_and_the_dead_letters(self):
        with Daemon("[health]\npending = 2\n") as daemon:
            daemon.wait_until_ready()
            self.assertEqual(daemon.ask("GET", "/health").json()["status"], "healthy")
            for _ in range(3):
                daemon.ask("POST", "/v1/outbox/a", b"x")
            answer = daemon.ask("GET", "/health")
            self.assertEqual((answer.status, answer.json()["status"]), (200, "degraded"))
            make_dead(daemon.folder / "twinbox.db", 11)
            answer = daemon.ask("GET", "/health")
            self.assertEqual((answer.status, answer.json()["status"]), (503, "unhealthy"))
            self.assertIn(b"more than 10 dead letters", answer.body)

    def test_dead_letters_and_backlog_do_not_take_the_daemon_out_of_service(self):
        with Daemon("[health]\npending = 2\n") as daemon:
            for _ in range(3):
                daemon.ask("POST", "/v1/outbox/a", b"x")
            make_dead(daemon.folder / "twinbox.db", 11)
            answer = daemon.ask("GET", "/health/ready")
            self.assertEqual((answer.status, answer.json()["status"]), (200, "ready"))

    def test_a_caller_without_the_read_role_sees_one_word(self):
        with Daemon() as daemon:
            daemon.wait_until_ready()
            make_dead(daemon.folder / "twinbox.db", 11)
            far = {"X-Forwarded-For": "192.0.2.1"}
            answer = daemon.ask("GET", "/health", headers=far)
            self.assertEqual((answer.status, answer.json()), (503, {"status": "unhealthy"}))
            answer = daemon.ask("GET", "/health/ready", headers=far)
            self.assertEqual((answer.status, answer.json()), (200, {"status": "ready"}))

    def test_EVB_19_a_store_that_cannot_be_asked_is_not_ready_but_the_daemon_lives(self):
        config = '[store.far]\nurl = "postgresql://127.0.0.1:1/nothing?connect_timeout=1"\n' \
                 'wait_timeout = "1s"\n'
        with Daemon(config) as daemon:
            self.assertEqual(daemon.ask("GET", "/health/live").status, 200)
            answer = daemon.ask("GET", "/health/ready")
            self.assertEqual((answer.status, answer.json()["status"]), (503, "not_ready"))
            self.assertIn(b"127.0.0.1", answer.body)
            # From elsewhere: a probe learns that, and not where and whose the database is.
            answer = daemon.ask("GET", "/health/ready", headers={"X-Forwarded-For": "192.0.2.1"})
            self.assertEqual((answer.status, answer.json()["status"]), (503, "not_ready"))
            self.assertNotIn(b"127.0.0.1", answer.body)
            answer = daemon.ask("POST", "/v1/outbox/a", b"x")
            self.assertEqual(answer.status, 503)
            self.assertIn("Retry-After", answer.headers)
            self.assertEqual(daemon.stop(), 0)

    def test_a_store_that_breaks_is_told_of_and_only_who_may_read_learns_where_it_is(self):
        with Daemon() as daemon:
            daemon.wait_until_ready()
            with contextlib.closing(sqlite3.connect(daemon.folder / "twinbox.db")) as database:
                database.execute("alter table outbox_work rename to elsewhere")
            end = time.monotonic() + LIMIT
            while (answer := daemon.ask("GET", "/health/ready")).status == 200:
                self.assertLess(time.monotonic(), end)
            self.assertEqual((answer.status, answer.json()["status"]), (503, "not_ready"))
            self.assertIn(b"twinbox.db", answer.body)
            answer = daemon.ask("GET", "/health/ready", headers={"X-Forwarded-For": "192.0.2.1"})
            self.assertEqual((answer.status, answer.json()["status"]), (503, "not_ready"))
            self.assertNotIn(b"twinbox.db", answer.body)
            self.assertEqual(daemon.stop(), 0)

    def small_disk(self):
        """A disk of its own, where we may mount one."""
        folder = new_folder("twinbox_disk_")
        mount = ["mount", "-t", "tmpfs", "-o", "size=4m,mode=0700", "tmpfs", folder]
        if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
            self.skipTest("needs the right to mount a small disk")
        self.addCleanup(subprocess.run, ["umount", "-l", folder], check=True)
        return folder

    def stores(self, daemon):
        """What the metrics say of them, for both boxes: up, writable."""
        text = daemon.ask("GET", "/metrics").body.decode()
        return [{int(float(value)) for value in
                 re.findall(r"^twinbox_store_%s\{.*\} (\S+)$" % name, text, re.MULTILINE)}
                for name in ("up", "writable")]

    def test_a_full_disk_is_told_of_alike_by_the_probe_the_overview_and_the_metrics(self):
        with Daemon(folder=self.small_disk()) as daemon:
            self.assertEqual(daemon.ask("GET", "/v1/overview").json()["status"], "healthy")
            self.assertEqual(self.stores(daemon), [{1}, {1}])
            ballast = daemon.folder / "ballast"
            disk = os.statvfs(daemon.folder)
            ballast.write_bytes(bytes(disk.f_bavail * disk.f_frsize - 65536))
            large = bytes(100_000)
            answer = daemon.ask("POST", "/v1/outbox/a", large)
            self.assertEqual(answer.status, 503)
            self.assertIn("Retry-After", answer.headers)
            ready = daemon.ask("GET", "/health/ready")
            self.assertEqual((ready.status, ready.json()["status"]), (503, "not_ready"))
            overview = daemon.ask("GET", "/v1/overview").json()
            self.assertEqual(overview["status"], "unhealthy")
            self.assertEqual(overview["reasons"][0]["about"], "store")
            self.assertIn("cannot accept writes", overview["reasons"][0]["text"])
            self.assertIn("cannot accept writes", ready.json()["stores"][0]["reasons"][0])
            self.assertEqual(self.stores(daemon), [{1}, {0}])
            ballast.unlink()
            self.assertEqual(daemon.ask("POST", "/v1/outbox/a", large).status, 202)
            daemon.wait_until_ready()
            self.assertEqual(daemon.ask("GET", "/v1/overview").json()["status"], "healthy")
            self.assertEqual(self.stores(daemon), [{1}, {1}])
            self.assertEqual(daemon.stop(), 0)


if __name__ == "__main__":
    unittest.main()
