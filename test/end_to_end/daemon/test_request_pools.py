"""Requests that hang hold up their own kind only, and readiness knows whether writes work."""
import contextlib
import re
import select
import socket
import sqlite3
import time
import unittest

from daemon import LIMIT, Daemon
from store import PostgresStore, SqliteStore
from test_faults import Path


class BlockedSqlite(SqliteStore):
    """`/v1/messages/first` reads a view that never ends."""
    config = '[store.main]\nurl = "sqlite:twinbox.db"\n{more}[access]\ntoken_file = "tokens"\n'

    @contextlib.contextmanager
    def reads_blocked(self):
        with contextlib.closing(sqlite3.connect(self.file, timeout=LIMIT)) as database, database:
            database.execute("insert into outbox_failure (number, failed_at, attempt, handler) "
                             "select number, 0, 1, '' from outbox_message")
            database.execute("alter table outbox_failure rename to some_failure")
            database.execute("create view endless as with recursive n(i) as "
                             "(select 1 union all select i + 1 from n) select i from n")
            database.execute("create view outbox_failure as select * from some_failure "
                             "where (select count(*) from endless) < 0")
        yield


class BlockedPostgres(PostgresStore):
    def __init__(self, folder):
        super().__init__(folder)
        self.config = self.config.replace("[access]", "{more}[access]")

    def reads_blocked(self):
        return self.transaction(f"lock table {self.schema}.outbox_failure in access exclusive mode")


class RequestPools:
    def start(self, config="", more='wait_timeout = "10m"\n'):
        daemon = Daemon()
        self.store = self.make_store(daemon.folder)
        daemon.configure(self.store.config.replace("{more}", more) + "[log]\naccess = false\n" + config)
        daemon.environment.update(self.store.environment)
        daemon.start()
        self.addCleanup(self.store.remove)
        self.addCleanup(daemon.__exit__)
        answer = daemon.ask("POST", "/v1/outbox/a", b"x", {"Idempotency-Key": "first"})
        self.assertEqual(answer.status, 202, answer.body)
        return daemon

    def send(self, daemon, count, *request):
        """Without waiting for the answers."""
        connections = []
        for number in range(count):
            connection = daemon.connect()
            self.addCleanup(connection.close)
            connection.request(*(part(number) if callable(part) else part for part in request))
            connections.append(connection)
        return connections

    def answered(self, connections):
        return select.select([one.sock for one in connections], [], [], 0)[0]

    def pool(self, daemon, name):
        """What the metrics say of it: running, waiting."""
        text = daemon.ask("GET", "/metrics").body.decode()
        return tuple(int(re.search(rf'twinbox_request_pool_{what}{{pool="{name}"}} (\d+)', text)[1])
                     for what in ("running", "waiting"))

    def wait_for_pool(self, daemon, name, running, waiting):
        end = time.monotonic() + LIMIT
        while (seen := self.pool(daemon, name)) != (running, waiting):
            self.assertLess(time.monotonic(), end, seen)

    def serves(self, daemon):
        """All but reads."""
        self.assertEqual(daemon.ask("POST", "/v1/outbox/a", b"x").status, 202)
        self.assertEqual(daemon.ask("POST", "/v1/inbox/s/a", b"x", {"Idempotency-Key": "1"}).status // 100, 2)
        for path in ["/health/live", "/health/ready", "/health", "/v1/dispatch"]:
            self.assertEqual(daemon.ask("GET", path).status, 200, path)

    def test_blocked_readers_hold_up_nothing_else(self):
        daemon = self.start('[limit]\nquery_timeout = "1h"\nrequest_timeout = "1h"\nshutdown_timeout = "0s"\n')
        with self.store.reads_blocked():
            readers = self.send(daemon, 200, "GET", "/v1/messages/first")
            # Two of the eight connections of the store, and no more of the eight readers.
            self.wait_for_pool(daemon, "read", 2, 198)
            self.serves(daemon)
            self.assertEqual(self.answered(readers), [])
            self.assertEqual(self.pool(daemon, "read"), (2, 198))
            self.assertEqual(daemon.stop(), 0)
        self.assertRegex(daemon.lines[-1], " stopped$")

    def test_blocked_readers_do_not_hold_up_operators(self):
        daemon = self.start('[server]\nread_threads = 2\n[limit]\nquery_timeout = "1h"\nrequest_timeout = "1h"\n'
                            'shutdown_timeout = "0s"\n')
        daemon.wait_for_token()
        with self.store.reads_blocked():
            self.send(daemon, 20, "GET", "/v1/messages/first")
            self.wait_for_pool(daemon, "read", 2, 18)
            for verb in ["pause", "resume"]:
                self.assertEqual(daemon.operate("POST", f"/v1/dispatch/{verb}", b"").status, 200)
            self.assertEqual(self.pool(daemon, "read"), (2, 18))
            self.assertEqual(daemon.stop(), 0)

    def test_a_full_request_pool_refuses_its_own_kind(self):
        daemon = self.start('[server]\nqueue_size = 1\n[limit]\nquery_timeout = "1h"\nrequest_timeout = "1h"\n'
                            'shutdown_timeout = "0s"\n')
        with self.store.reads_blocked():
            readers = self.send(daemon, 2, "GET", "/v1/messages/first")
            end = time.monotonic() + LIMIT
            while self.pool(daemon, "read")[0] < 2:  # one may have been refused by the short queue
                self.assertLess(time.monotonic(), end)
                readers += self.send(daemon, 1, "GET", "/v1/messages/first")
            self.send(daemon, 1, "GET", "/v1/messages/first")
            self.wait_for_pool(daemon, "read", 2, 1)
            for _ in range(10):
                answer = daemon.ask("GET", "/v1/messages")
                self.assertEqual((answer.status, answer.headers["Retry-After"]), (503, "1"))
                self.assertIn("the read pool is full", answer.json()["detail"])
                self.assertIn("server.queue_size", answer.json()["detail"])
            self.assertEqual(daemon.ask("POST", "/v1/outbox/a", b"x").status, 202)
            daemon.wait_until_ready()
            self.assertEqual(daemon.stop(), 0)

    def test_a_query_that_takes_too_long_is_ended_and_says_so(self):
        daemon = self.start('[limit]\nquery_timeout = "2s"\n')
        with self.store.reads_blocked():
            answer = daemon.ask("GET", "/v1/messages/first")
            self.assertEqual(answer.status, 504, answer.body)
            self.assertIn("store main: the query was cancelled after limit.query_timeout (2000 ms)",
                          answer.json()["detail"])
            self.assertEqual(daemon.ask("GET", "/v1/messages").status, 200)
            self.serves(daemon)
        daemon.wait_for(r" read_timed_out store=main")
        self.assertEqual(daemon.stop(), 0)

    def test_events_for_a_dead_receiver_hold_up_neither_others_nor_the_stop(self):
        receiver = socket.create_server(("127.0.0.1", 0))  # takes connections, and never answers
        self.addCleanup(receiver.close)
        daemon = self.start(
            '[server]\ninline_threads = 2\n[limit]\nrequest_timeout = "1h"\n[dispatch]\ngrace = "0s"\n'
            f'[sink.dead]\ntype = "http"\nurl = "http://127.0.0.1:{receiver.getsockname()[1]}/"\n'
            'timeout = "1h"\nallow = ["127.0.0.0/8"]\n'
            '[[event]]\nname = "paid"\nmode = "inline"\nsink = "dead"\n')
        events = self.send(daemon, 64, "POST", "/events/paid/v1", b"{}", lambda number: {
            "ce-specversion": "1.0", "ce-id": f"e{number}", "ce-source": "/s", "ce-type": "paid.v1"})
        self.wait_for_pool(daemon, "inline", 2, 62)
        self.serves(daemon)
        self.assertEqual(daemon.ask("GET", "/v1/messages").status, 200)
        self.assertEqual(self.answered(events), [])
        self.assertEqual(daemon.stop(), 0)
        self.assertRegex(daemon.lines[-1], " stopped$")
        statuses = [(answer.status, answer.headers["Retry-After"] is not None)
                    for answer in (event.getresponse() for event in events)]
        self.assertEqual(statuses, [(503, True)] * 64)

    def wait_for_readiness(self, daemon, status):
        end = time.monotonic() + LIMIT
        asked = 0
        while (answer := daemon.ask("GET", "/health/ready")).status != status:
            asked += 1
            self.assertLess(time.monotonic(), end, answer.body)
        return answer, asked

    def probes(self, daemon):
        text = daemon.ask("GET", "/metrics").body.decode()
        return int(re.search(r'twinbox_write_probes_total{store="main"} (\d+)', text)[1])

    def test_readiness_follows_the_writes(self):
        daemon = self.start()
        with self.writes_blocked():
            self.assertEqual(daemon.ask("GET", "/health/ready").status, 200)  # it has just written
            answer, asked = self.wait_for_readiness(daemon, 503)
            self.assertEqual(answer.json()["status"], "not_ready")
            self.assertIn("store main", answer.json()["stores"][0]["reasons"][0])
            self.assertEqual(daemon.ask("GET", "/health").status, 503)
            word = daemon.ask("GET", "/health/ready", headers={"X-Forwarded-For": "192.0.2.1"})
            self.assertEqual((word.status, word.json()), (503, {"status": "not_ready"}))
            before = self.probes(daemon)
            for _ in range(200):
                self.assertEqual(daemon.ask("GET", "/health/ready").status, 503)
            self.assertLess(self.probes(daemon) - before, 20)
        self.wait_for_readiness(daemon, 200)
        self.assertEqual(daemon.stop(), 0)


class RequestPoolsOnSqlite(RequestPools, unittest.TestCase):
    make_store = BlockedSqlite

    def writes_blocked(self):
        return self.store.held()


@unittest.skipUnless(PostgresStore.url, "no PostgreSQL is there")
class RequestPoolsOnPostgres(RequestPools, unittest.TestCase):
    make_store = BlockedPostgres

    def writes_blocked(self):
        return self.store.transaction(f"lock table {self.store.schema}.outbox_worker, "
                                      f"{self.store.schema}.outbox_work in exclusive mode")

    def test_readiness_knows_that_a_silent_primary_takes_no_writes(self):
        url = PostgresStore.url
        host, port = re.search(r"@([^:/]+):(\d+)/", url).groups()
        path = Path(host, int(port))
        self.addCleanup(path.listener.close)

        def far(folder):
            store = BlockedPostgres(folder)
            store.environment = {"PLACE": url.replace(f"@{host}:{port}/", f"@127.0.0.1:{path.port()}/")}
            return store
        self.make_store = far
        daemon = self.start('[limit]\nrequest_timeout = "1h"\nshutdown_timeout = "0s"\n[dispatch]\ngrace = "0s"\n',
                            'answer_timeout = "1h"\n')
        daemon.wait_until_ready()
        path.silent.set()
        posts = self.send(daemon, 8, "POST", "/v1/outbox/a", b"x")
        self.assertTrue(path.taken.wait(LIMIT))
        self.wait_for_readiness(daemon, 503)
        self.assertEqual(self.answered(posts), [])
        self.assertEqual(daemon.ask("GET", "/health").status, 503)
        daemon.kill()


if __name__ == "__main__":
    unittest.main()
