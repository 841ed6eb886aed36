"""kill -9 in each phase: nothing that was accepted is lost, and only what was in flight comes twice."""
import collections
import os
import pathlib
import signal
import threading
import time
import unittest

from daemon import LIMIT, Daemon, new_folder
from receiver import Receiver
from store import PostgresStore, SqliteStore
from test_faults import Load

ROUTES = """
[sink.there]
type = "http"
url = "{url}"
allow = ["127.0.0.1"]
[[route]]
sink = "there"
[dispatch]
workers = 4
lease = "{lease}"
poll_interval = "20ms"
[log]
access = false
"""
COUNT = 20


class Gate:
    """A receiver that answers when it is opened, and remembers what came."""

    def __init__(self):
        self.opened = threading.Event()
        self.changed = threading.Condition()
        self.arrived = collections.Counter()
        self.receiver = Receiver(self._answer)

    def _answer(self, request):
        with self.changed:
            self.arrived[request.headers["Idempotency-Key"]] += 1
            self.changed.notify_all()
        self.opened.wait(LIMIT)
        return 200

    def wait_for(self, fits):
        with self.changed:
            if not self.changed.wait_for(lambda: fits(self.arrived), LIMIT):
                raise AssertionError(f"never fits: {self.arrived}")

    def __enter__(self):
        self.receiver.__enter__()
        return self

    def __exit__(self, *_):
        self.opened.set()
        self.receiver.__exit__()


class Kill:
    lease = "5m"  # nothing that a busy machine does lasts so long

    def setUp(self):
        self.folder = pathlib.Path(new_folder("twinbox_kill_"))
        self.store = self.Store(self.folder)
        self.ids = {f"m{number}" for number in range(COUNT)}

    def daemon(self, gate=None):
        config = self.store.config
        if gate:
            config += ROUTES.format(url=gate.receiver.url, lease=self.lease)
        daemon = Daemon(config, folder=self.folder, environment=self.store.environment)
        self.addCleanup(lambda: daemon.process.poll() is not None or daemon.kill())
        return daemon

    def begin(self, gate):
        """A daemon whose four workers wait for their answers."""
        daemon = self.daemon(gate).start()
        connection = daemon.connect()
        for id in sorted(self.ids):
            answer = daemon.ask("POST", "/v1/outbox/a", b"x", {"Idempotency-Key": id}, connection)
            self.assertEqual(answer.status, 202)
        connection.close()
        gate.wait_for(lambda arrived: len(arrived) >= 4)
        return daemon

    def end(self, gate, daemon):
        """After the kill: what is not recorded as done comes, once, and nothing else."""
        daemon.stop()
        self.store.end_leases()
        if gate.opened.is_set():
            gate.receiver.wait_for_silence()
        done, before = self.store.done(), +gate.arrived
        gate.opened.set()
        again = self.daemon(gate).start()
        gate.wait_for(lambda arrived: set(arrived - before) | done == self.ids)
        while self.store.done() != self.ids:  # only a failure takes long
            self.assertIsNone(again.process.poll())
        self.assertEqual(again.stop(), 0)
        self.assertEqual(gate.arrived - before,
                         collections.Counter({id: 1 for id in self.ids - done}))
        return before, done

    def test_before_a_receiver_has_answered(self):
        with Gate() as gate:
            daemon = self.begin(gate)
            daemon.kill()
            before, done = self.end(gate, daemon)
            self.assertEqual((len(before), done), (4, set()))

    def test_leases_of_the_dead_end_by_themselves(self):
        self.lease = "2s"
        with Gate() as gate:
            daemon = self.begin(gate)
            daemon.kill()
            daemon.stop()
            gate.opened.set()
            again = self.daemon(gate).start()
            while self.store.done() != self.ids:  # only a failure takes long
                self.assertIsNone(again.process.poll())
            self.assertEqual(again.stop(), 0)

    def test_after_a_receiver_has_answered_and_before_that_is_recorded(self):
        with Gate() as gate:
            daemon = self.begin(gate)
            with self.store.held():
                gate.opened.set()
                for _ in range(4):
                    self.assertEqual(gate.receiver.next()[0], 200)
                daemon.kill()
            before, done = self.end(gate, daemon)
            self.assertFalse(set(before) & done)

    def test_in_the_midst_of_deliveries(self):
        with Gate() as gate:
            daemon = self.begin(gate)
            gate.opened.set()
            gate.wait_for(lambda arrived: len(arrived) >= COUNT // 2)
            daemon.kill()
            before, done = self.end(gate, daemon)
            self.assertLessEqual(done, set(before))  # end() has seen that the others came again

    def test_during_a_reload(self):
        with Gate() as gate:
            daemon = self.begin(gate)
            daemon.signal(signal.SIGHUP)
            daemon.wait_for(" reloaded")  # the former dispatcher still has its deliveries
            daemon.kill()
            self.end(gate, daemon)

    def test_during_a_stop(self):
        with Gate() as gate:
            daemon = self.begin(gate)
            daemon.signal(signal.SIGTERM)
            daemon.wait_for(" stopping")
            daemon.kill()
            self.end(gate, daemon)

    def test_what_is_accepted_while_it_reloads_or_stops(self):
        for number, line in [(signal.SIGHUP, None), (signal.SIGTERM, None),
                             (signal.SIGTERM, " stopping")]:
            daemon = self.daemon().start()
            with Load(daemon) as load:
                self.assertTrue(load.enough.wait(LIMIT))
                daemon.signal(number)
                if line:
                    daemon.wait_for(line)
                daemon.kill()
            daemon.stop()
            again = self.daemon().start()
            connection = again.connect()
            for id in load.accepted:
                self.assertEqual(again.ask("GET", f"/v1/messages/{id}",
                                           connection=connection).status, 200)
            connection.close()
            self.assertEqual(again.stop(), 0)

    def works(self):
        """A start after the kill finishes the schema, and messages go in and out."""
        with Gate() as gate:
            gate.opened.set()
            daemon = self.daemon(gate).start()
            self.assertEqual(daemon.ask("POST", "/v1/outbox/a", b"x",
                                        {"Idempotency-Key": "m"}).status, 202)
            self.assertEqual(daemon.ask("POST", "/v1/inbox/s/t", b"x",
                                        {"Idempotency-Key": "m"}).status, 202)
            gate.wait_for(lambda arrived: arrived["m"] == 1)
            self.assertEqual(daemon.stop(), 0)


class KillOnSqlite(Kill, unittest.TestCase):
    Store = SqliteStore

    def test_while_the_schema_is_deployed(self):
        wal = self.folder / "twinbox.db-wal"
        for size in [0, 1, 10_000, 40_000, 100_000]:
            for file in self.folder.iterdir():
                file.unlink()
            daemon = self.daemon()
            daemon.launch()
            end = time.monotonic() + LIMIT
            while not any("listening" in line for line in daemon.lines):
                if wal.exists() and wal.stat().st_size >= size:
                    break
                self.assertLess(time.monotonic(), end)
            daemon.kill()
            daemon.stop()
            self.works()

    def test_while_it_waits_to_deploy(self):
        (self.folder / "twinbox.db").touch()
        daemon = self.daemon()
        with self.store.held():
            daemon.launch()
            end = time.monotonic() + LIMIT
            while f"{self.folder}/twinbox.db" not in self.open_files(daemon):
                self.assertLess(time.monotonic(), end)
            daemon.kill()
        daemon.stop()
        self.works()

    @staticmethod
    def open_files(daemon):
        place, files = f"/proc/{daemon.process.pid}/fd", set()
        for name in os.listdir(place):
            try:
                files.add(os.readlink(f"{place}/{name}"))
            except FileNotFoundError:
                pass
        return files


@unittest.skipUnless(PostgresStore.url, "no PostgreSQL is there")
class KillOnPostgres(Kill, unittest.TestCase):
    Store = PostgresStore

    def test_while_the_schema_is_deployed(self):
        daemon = self.daemon()
        # Its own "create schema" waits for the end of this one.
        with self.store.transaction(f"create schema {self.store.schema}"):
            daemon.launch()
            end = time.monotonic() + LIMIT
            while not self.store.ask("select 1 from pg_stat_activity where wait_event_type = 'Lock'"
                                     f" and query like '%create schema%{self.store.schema}%'"):
                self.assertLess(time.monotonic(), end)
            daemon.kill()
        daemon.stop()
        self.works()


if __name__ == "__main__":
    unittest.main()
