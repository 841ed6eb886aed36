"""What the dashboard shows: the verdict, the numbers, the history, live."""
import contextlib
import hashlib
import json
import pathlib
import signal
import unittest

from daemon import Daemon, box_of, new_folder
from store import PostgresStore, SqliteStore

# Whatever has no route dies at once.
DEADLY = '[dispatch]\nno_route = "dead"\n[sink.log]\ntype = "log"\n' \
         '[[route]]\nname = "known"\ntopic = "known"\nsink = "log"\n'
FAR = '[store.far]\nurl = "postgresql://127.0.0.1:1/nothing?connect_timeout=1"\n' \
      'wait_timeout = "1s"\n'
HERE = '[store.here]\nurl = "sqlite:here.db"\n[access]\ntoken_file = "twinbox.tokens"\n'


def enqueue(daemon, topic, count, store=""):
    connection = daemon.connect()
    for _ in range(count):
        target = f"/v1/outbox/{topic}" + (f"?store={store}" if store else "")
        assert daemon.ask("POST", target, b"x", connection=connection).status == 202
    connection.close()


def known_points(test, daemon, **query):
    """Those of a chart that say something."""
    text = "&".join(f"{name}={value}" for name, value in query.items())
    chart = daemon.ask("GET", "/v1/history?" + text).json()
    columns = ["done", "failed", "open", "dead", "oldest_seconds", "p50_ms", "p99_ms"]
    for name in columns:
        test.assertEqual(len(chart[name]), len(chart["at"]))
    test.assertEqual(chart["at"], sorted(chart["at"]))
    return [{name: chart[name][i] for name in columns} for i in range(len(chart["at"]))
            if chart["open"][i] is not None]


class OnStore:
    """A store of this kind for each test."""
    where = SqliteStore

    def setUp(self):
        self.folder = pathlib.Path(new_folder("twinbox_dashboard_"))
        self.store = self.where(self.folder)
        self.addCleanup(self.store.remove)

    def daemon(self, config=""):
        return Daemon(self.store.config + config, self.store.environment, self.folder)


class Counted(OnStore, unittest.TestCase):
    def test_the_verdict_names_what_is_wrong(self):
        with self.daemon(DEADLY + "[health]\ndead = 2\n") as daemon:
            first = daemon.ask("GET", "/v1/overview").json()
            self.assertEqual((first["status"], first["reasons"]), ("healthy", []))
            self.assertEqual((first["stores"], first["unreachable"]), (1, 0))
            self.assertEqual([box["box"] for box in first["boxes"]], ["outbox", "inbox"])
            enqueue(daemon, "unknown", 3)
            sick = daemon.wait_until(lambda overview: overview["status"] == "unhealthy")
            self.assertEqual(sick["reasons"], [
                {"store": "main", "box": "outbox", "about": "dead", "status": "unhealthy",
                 "text": "3 dead letters, more than 2"}])
            self.assertEqual(box_of(sick)["counts"]["dead"], 3)
            self.assertEqual(daemon.stop(), 0)

    def test_done_failed_and_times_are_those_of_the_dispatchers(self):
        with self.daemon(DEADLY) as daemon:
            enqueue(daemon, "known", 5)
            enqueue(daemon, "unknown", 1)
            box = box_of(daemon.wait_until(
                lambda overview: box_of(overview)["done_per_minute"] > 0 and
                box_of(overview)["failed_per_minute"] > 0 and
                box_of(overview)["counts"]["dead"] == 1 and box_of(overview)["open"] == 0 and
                abs(box_of(overview)["error_rate"] - 1 / 6) < 0.001))
            self.assertGreater(box["p99_ms"], 0)
            self.assertLessEqual(box["p50_ms"], box["p99_ms"])
            topics = daemon.ask("GET", "/v1/stores").json()["stores"][0]["boxes"][0]["topics"]
            self.assertEqual(topics["known"]["error_rate"], 0)
            self.assertEqual(topics["unknown"]["error_rate"], 1)
            self.assertEqual((topics["known"]["ready"], topics["unknown"]["dead"]), (0, 1))

    def test_what_workers_elsewhere_have_done_is_counted_too(self):
        with self.daemon() as daemon:
            enqueue(daemon, "nobody's", 1)
            daemon.wait_for_count("ready", 1)  # now it has looked
            self.store.tell_worker("elsewhere:1", done=600, failed=400)
            box = box_of(daemon.wait_until(
                lambda overview: box_of(overview)["error_rate"] is not None))
            self.assertGreater(box["done_per_minute"], 0)
            self.assertEqual(box["error_rate"], 0.4)
            self.assertIsNone(box["p50_ms"])
            worker, = daemon.ask("GET", "/v1/workers").json()["workers"]
            self.assertEqual((worker["name"], worker["done"], worker["failed"]),
                             ("elsewhere:1", 600, 400))

    def test_a_history_survives_a_restart(self):
        with self.daemon() as daemon:
            enqueue(daemon, "a", 2)
            daemon.wait_for_count("ready", 2)
            for span, steps, seconds in [("15m", 90, 10), ("1h", 60, 60), ("24h", 144, 600)]:
                chart = daemon.ask("GET", f"/v1/history?span={span}").json()
                self.assertEqual((len(chart["at"]), chart["step_seconds"]), (steps, seconds))
            self.assertEqual(daemon.stop(), 0)
        [file] = self.folder.glob("*.history")
        self.assertEqual(file.stat().st_mode & 0o077, 0)
        with self.daemon() as again:
            for span in ["15m", "1h", "24h"]:
                for query in [{"box": "outbox"}, {"store": "main"}]:
                    points = known_points(self, again, span=span, **query)
                    self.assertIn(2, [point["open"] for point in points], (span, query))
            self.assertEqual(again.stop(), 0)


class Bounded(OnStore, unittest.TestCase):
    """What grows with the data ends in an answer of bounded size."""
    many = 5000

    def test_thousands_of_topics_are_the_largest_and_a_rest(self):
        with self.daemon() as daemon:
            enqueue(daemon, "large", 3)
            self.store.make_open(self.many)
            daemon.wait_for_count("ready", self.many + 3)
            answer = daemon.ask("GET", "/v1/stores")
            self.assertLess(len(answer.body), 100_000)
            box = answer.json()["stores"][0]["boxes"][0]
            self.assertEqual(len(box["topics"]), 200)
            self.assertEqual(box["topics"]["large"]["ready"], 3)
            other = box["other_topics"]
            self.assertEqual(other["topics"], self.many + 1 - 200)
            self.assertEqual(other["counts"]["ready"], self.many + 1 - 200)
            self.assertEqual(box["counts"]["ready"], self.many + 3)
            self.assertLess(len(daemon.ask("GET", "/v1/overview").body), 10_000)
            metrics = daemon.ask("GET", "/metrics").body
            self.assertNotIn(b"open.000", metrics)
            self.assertEqual(daemon.stop(), 0)

    def test_thousands_of_errors_are_the_newest_groups_and_a_rest(self):
        with self.daemon() as daemon:
            self.store.make_dead(self.many)
            self.store.make_errors_differ()
            daemon.wait_for_count("dead", self.many)
            answer = daemon.ask("GET", "/v1/dead_letter_groups")
            self.assertLess(len(answer.body), 50_000)
            self.assertEqual(len(answer.json()["groups"]), 100)
            self.assertEqual(answer.json()["other"], self.many - 100)
            few = daemon.ask("GET", "/v1/dead_letter_groups?limit=7&topic=t0").json()
            self.assertEqual((len(few["groups"]), few["other"]), (7, self.many - 7))
            none = daemon.ask("GET", "/v1/dead_letter_groups?topic=none").json()
            self.assertEqual((none["groups"], none["other"]), ([], 0))
            self.assertEqual(daemon.ask("GET", "/v1/dead_letter_groups?limit=1001").status, 400)
            self.assertEqual(daemon.stop(), 0)

    def test_a_key_that_waits_for_a_due_time_far_away_is_a_reason(self):
        with self.daemon() as daemon:
            for key in ["head", "behind"]:
                daemon.ask("POST", "/v1/outbox/a", b"x", {
                    "Idempotency-Key": key, "Twinbox-Partition-Key": "customer"})
            self.store.postpone_for_days("head", 30)
            sick = daemon.wait_until(lambda overview: overview["reasons"])
            self.assertEqual(sick["status"], "degraded")
            [reason] = sick["reasons"]
            self.assertEqual((reason["about"], reason["box"]), ("key", "outbox"))
            self.assertIn("partition key customer waits for head, which is due 20", reason["text"])
            self.assertIn("1 waits", reason["text"])
            [blocked] = daemon.ask("GET", "/v1/messages/head").json()["blocked_keys"]
            self.assertEqual((blocked["partition_key"], blocked["waiting"]), ("customer", 1))
            self.assertIn("partition key waits for a delivery that is due in more than 1 h",
                          json.dumps(daemon.ask("GET", "/health").json()))
            self.assertIn('twinbox_blocked_keys{box="outbox",store="main"} 1',
                          daemon.ask("GET", "/metrics").body.decode())
            counts = box_of(sick)["counts"]
            self.assertIsNone(counts["oldest_pending_seconds"])
            self.assertGreater(counts["oldest_open_seconds"], 0)
            self.assertEqual(daemon.stop(), 0)


@unittest.skipUnless(PostgresStore.url, "no PostgreSQL is there")
class BoundedOnPostgres(Bounded):
    where = PostgresStore


class Pages(unittest.TestCase):
    def test_stores_come_in_pages(self):
        names = [f"s{n}" for n in range(5)]
        stores = "".join(f'[store.{name}]\nurl = "sqlite:{name}.db"\n' for name in names)
        with Daemon(stores + '[access]\ntoken_file = "tokens"\n') as daemon:
            found, after = [], ""
            while after is not None:
                page = daemon.ask("GET", f"/v1/stores?limit=2&after={after}").json()
                self.assertLessEqual(len(page["stores"]), 2)
                found += [store["name"] for store in page["stores"]]
                after = page["next"]
            self.assertEqual(found, names)
            one = daemon.ask("GET", "/v1/stores?store=s3").json()
            self.assertEqual([store["name"] for store in one["stores"]], ["s3"])
            for query in ["limit=0", "limit=1001", "size=1"]:
                self.assertEqual(daemon.ask("GET", "/v1/stores?" + query).status, 400)
            self.assertEqual(daemon.ask("GET", "/v1/stores?after=none").status, 404)
            self.assertEqual(daemon.ask("GET", "/v1/workers?store=none").status, 404)
            self.assertEqual(daemon.stop(), 0)


@unittest.skipUnless(PostgresStore.url, "no PostgreSQL is there")
class CountedOnPostgres(Counted):
    where = PostgresStore


class Overview(unittest.TestCase):
    def test_what_is_paused_is_told(self):
        with Daemon(DEADLY) as daemon:
            daemon.wait_for_token()
            for scope, store in [({}, None), ({"store": "main"}, "main"), ({"topic": "a"}, None)]:
                daemon.operate("POST", "/v1/dispatch/pause", json.dumps(scope))
                overview = daemon.ask("GET", "/v1/overview").json()
                self.assertEqual(overview["status"], "degraded")
                [reason] = overview["reasons"]
                self.assertEqual(reason["store"], store)
                self.assertEqual(reason["about"], "topic" if "topic" in scope else "pause")
                self.assertIn("paused", reason["text"])
                box = daemon.ask("GET", "/v1/stores").json()["stores"][0]["boxes"][0]
                self.assertEqual(box["paused"], "topic" not in scope)
                daemon.operate("POST", "/v1/dispatch/resume", json.dumps(scope))
            self.assertEqual(daemon.ask("GET", "/v1/overview").json()["status"], "healthy")

    def test_a_store_that_is_away_is_named_and_holds_up_no_other(self):
        with Daemon(FAR + HERE + DEADLY) as daemon:
            enqueue(daemon, "known", 2, "here")
            overview = daemon.wait_until(lambda overview: overview["unreachable"] == 1 and
                                         overview["at"] is not None)
            self.assertEqual(overview["status"], "unhealthy")
            self.assertEqual({(reason["store"], reason["about"])
                              for reason in overview["reasons"]}, {("far", "store")})
            far, here = daemon.ask("GET", "/v1/stores").json()["stores"]
            self.assertIsNone(far["boxes"][0]["at"])
            self.assertIn("127.0.0.1", far["boxes"][0]["error"])
            self.assertNotIn("error", here["boxes"][0])
            self.assertEqual(here["boxes"][0]["status"], "healthy")
            self.assertEqual(daemon.ask("GET", "/v1/dead_letter_groups").status, 200)
            self.assertEqual(daemon.stop(), 0)


class Groups(unittest.TestCase):
    def test_of_all_stores_and_both_boxes_newest_first(self):
        other = '[store.main]\nurl = "sqlite:twinbox.db"\n[store.other]\nurl = "sqlite:other.db"\n' \
            '[access]\ntoken_file = "twinbox.tokens"\n'
        inbox = '[[route]]\nname = "in"\nbox = "inbox"\ntopic = "known"\nsink = "log"\n'
        with Daemon(other + DEADLY + inbox) as daemon:
            enqueue(daemon, "a", 2, "other")
            daemon.wait_for_count("dead", 2)
            enqueue(daemon, "b", 1, "main")
            daemon.wait_for_count("dead", 3)
            daemon.ask("POST", "/v1/inbox/s/c?store=main", b"x", {"Idempotency-Key": "1"})
            daemon.wait_for_count("dead", 1, "inbox")
            answer = daemon.ask("GET", "/v1/dead_letter_groups").json()
            self.assertEqual([(group["store"], group["box"], group["topic"], group["count"])
                              for group in answer["groups"]],
                             [("main", "inbox", "c", 1), ("main", "outbox", "b", 1),
                              ("other", "outbox", "a", 2)])
            one = daemon.ask("GET", "/v1/dead_letter_groups?store=other&box=outbox").json()["groups"]
            self.assertEqual([group["topic"] for group in one], ["a"])
            self.assertEqual(daemon.ask("GET", "/v1/dead_letter_groups?box=inbox").json()["groups"][0]["topic"],
                             "c")
            self.assertEqual(daemon.ask("GET", "/v1/dead_letter_groups?store=none").status, 404)
            self.assertEqual(daemon.ask("GET", "/v1/dead_letter_groups?box=mail").status, 400)


class Live(unittest.TestCase):
    def test_a_reload_disturbs_nobody_who_listens_and_a_stop_ends_it(self):
        with Daemon("[health]\npending = 1000\n") as daemon:
            with daemon.live() as live:
                self.assertEqual(next(live)["status"], "healthy")
                enqueue(daemon, "a", 2)
                daemon.configure("[health]\npending = 1\n")
                daemon.signal(signal.SIGHUP)
                for overview in live:
                    if overview["status"] == "degraded":
                        break
                else:
                    self.fail("the reload has ended it")
                self.assertEqual(daemon.stop(), 0)
                self.assertEqual(list(live), [])

    def test_listeners_hold_no_worker(self):
        with Daemon("[server]\nintake_threads = 1\n") as daemon, contextlib.ExitStack() as stack:
            for _ in range(10):
                next(stack.enter_context(daemon.live()))
            enqueue(daemon, "a", 1)
            self.assertEqual(daemon.stop(), 0)

    def test_their_number_is_bounded_and_who_leaves_makes_room(self):
        with Daemon() as daemon, contextlib.ExitStack() as stack:
            daemon.wait_for_token()
            for _ in range(15):
                stack.enter_context(daemon.live())
            with daemon.live():
                with daemon.live({"Authorization": f"Bearer {daemon.token}"}):
                    pass  # those without a token take none from one with a token
                answer = daemon.ask("GET", "/v1/overview/stream")
                self.assertEqual(answer.status, 503)
                self.assertIn("Retry-After", answer.headers)
            while daemon.ask("HEAD", "/v1/overview/stream").status != 200 or not self.room(daemon):
                pass  # the daemon hears of it a moment later
            self.assertEqual(daemon.stop(), 0)

    @staticmethod
    def room(daemon):
        connection = daemon.connect()
        connection.request("GET", "/v1/overview/stream")
        status = connection.getresponse().status
        connection.close()
        return status == 200

    def test_a_token_is_needed_and_when_it_is_taken_back_the_events_end(self):
        daemon = Daemon(local=False)
        tokens = daemon.folder / "twinbox.tokens"
        line = "{0} read " + hashlib.sha256(b"secret").hexdigest() + "\n"
        other = "keep admin " + hashlib.sha256(b"other").hexdigest() + "\n"
        tokens.write_text(line.format("one") + other)
        with daemon:
            self.assertEqual(daemon.ask("GET", "/v1/overview/stream").status, 401)
            cookie = daemon.ask("POST", "/v1/login", '{"token":"secret"}').headers["Set-Cookie"]
            with daemon.live({"Cookie": cookie.split(";")[0]}) as live:
                next(live)
                tokens.write_text(other)
                daemon.signal(signal.SIGHUP)
                daemon.wait_for("reloaded")
                daemon.ask("POST", "/v1/outbox/a", b"x", {"Authorization": "Bearer other"})
                self.assertEqual(list(live), [])
            self.assertEqual(daemon.stop(), 0)


class History(unittest.TestCase):
    def test_a_damaged_file_is_put_aside(self):
        daemon = Daemon()
        (daemon.folder / "twinbox.history").write_bytes(b"twinbox history 1\nnonsense" * 9)
        with daemon:
            self.assertTrue(any("history_unusable" in line for line in daemon.lines))
            # Its own beginning, be it beside the end of a step.
            self.assertLessEqual(len(known_points(self, daemon, span="24h")), 2)
            self.assertEqual(daemon.stop(), 0)
        self.assertTrue((daemon.folder / "twinbox.history.damaged").exists())
        self.assertTrue((daemon.folder / "twinbox.history").exists())

    def test_a_file_that_cannot_be_written_stops_nobody(self):
        daemon = Daemon()
        (daemon.folder / "twinbox.history.new").mkdir()
        with daemon:
            self.assertEqual(daemon.ask("GET", "/v1/history").status, 200)
            self.assertEqual(daemon.stop(), 0)
            self.assertTrue(any("history_not_saved" in line for line in daemon.lines))

    def test_what_it_cannot_tell(self):
        with Daemon() as daemon:
            self.assertEqual(daemon.ask("GET", "/v1/history?span=1y").status, 400)
            self.assertEqual(daemon.ask("GET", "/v1/history?store=none").status, 404)
            self.assertEqual(daemon.ask("GET", "/v1/history?box=none").status, 400)
            self.assertEqual(daemon.ask("GET", "/v1/history?colour=red").status, 400)


if __name__ == "__main__":
    unittest.main()
