"""The daemon is killed, stopped and reloaded under load: nothing that was accepted is lost."""
import http.client
import os
import random
import re
import select
import signal
import socket
import subprocess
import tempfile
import threading
import unittest
import uuid

from daemon import LIMIT, Daemon


class Path:
    """A way to a server that can fall silent: then it takes what it is given, and no answer comes."""

    def __init__(self, host, port):
        self.server = (host, port)
        self.silent = threading.Event()
        self.taken = threading.Event()  # something that will never be answered
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    def port(self):
        return self.listener.getsockname()[1]

    def _accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:  # closed
                return
            threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client):
        connected = not self.silent.is_set()  # who connects to a silent server gives up by himself
        with client, socket.create_connection(self.server) as server:
            while True:
                for side in select.select([client, server], [], [])[0]:
                    data = side.recv(65536)
                    if not data:
                        return
                    if not self.silent.is_set():
                        (server if side is client else client).sendall(data)
                    elif side is client and connected:
                        self.taken.set()


class Load:
    """Clients that enqueue without a pause and remember what was accepted."""

    def __init__(self, daemon, clients=8):
        self.daemon = daemon
        self.accepted = set()
        self.failures = []
        self.enough = threading.Event()
        self.ending = threading.Event()
        self.threads = [threading.Thread(target=self._work) for _ in range(clients)]

    def _work(self):
        connection = self.daemon.connect()
        try:
            self._send(connection)
        finally:
            connection.close()

    def _send(self, connection):
        while not self.ending.is_set():
            id = str(uuid.uuid4())
            try:
                answer = self.daemon.ask("POST", "/v1/outbox/a.b", b"x" * 100,
                                         {"Idempotency-Key": id}, connection)
            except (http.client.HTTPException, OSError) as error:
                self.failures.append(error)
                return
            if answer.status != 202:
                self.failures.append(answer.status)
                return
            self.accepted.add(id)
            if len(self.accepted) > 200:
                self.enough.set()
            if answer.headers["Connection"] == "close":
                return

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ending.set()
        for thread in self.threads:
            thread.join()


class Faults:
    config = ""

    def stored(self, daemon):
        ids, after = set(), ""
        while True:
            page = daemon.ask("GET", f"/v1/messages?limit=1000{after}").json()
            ids |= {message["id"] for message in page["messages"]}
            if page["next"] is None:
                return ids
            after = f"&after={page['next']}"

    def start(self, **options):
        daemon = Daemon(self.config + "[log]\naccess = false\n", **options).start()
        self.addCleanup(daemon.__exit__)
        return daemon

    def test_what_was_accepted_survives_kill_9(self):
        daemon = self.start()
        for _ in range(4):
            with Load(daemon) as load:
                self.assertTrue(load.enough.wait(60))
                daemon.kill()
            daemon.stop()
            daemon = self.start(folder=daemon.folder)
            self.assertLessEqual(load.accepted, self.stored(daemon))
        self.assertEqual(daemon.stop(), 0)

    def test_a_stop_under_load_answers_every_request_that_it_took(self):
        daemon = self.start()
        with Load(daemon) as load:
            self.assertTrue(load.enough.wait(60))
            daemon.signal(signal.SIGTERM)
            self.assertEqual(daemon.process.wait(60), 0)
        # A connection that was idle at that moment may be closed; no request gets another answer.
        self.assertFalse([failure for failure in load.failures if isinstance(failure, int)])
        daemon.stop()
        again = self.start(folder=daemon.folder)
        self.assertLessEqual(load.accepted, self.stored(again))

    def test_a_reload_under_load_drops_no_request(self):
        daemon = self.start()
        with Load(daemon) as load:
            self.assertTrue(load.enough.wait(60))
            for _ in range(5):
                daemon.signal(signal.SIGHUP)
                daemon.wait_for(" reloaded")
        self.assertEqual(load.failures, [])
        self.assertLessEqual(load.accepted, self.stored(daemon))


class FaultsOnSqlite(Faults, unittest.TestCase):
    def test_a_full_disk_is_answered_with_503_and_recovered_from(self):
        folder = tempfile.mkdtemp(prefix="twinbox_full_")
        self.addCleanup(os.rmdir, folder)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "twinbox", folder],
                                 capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("a small disk cannot be mounted here")
        self.addCleanup(subprocess.run, ["umount", folder])
        daemon = self.start(folder=folder)
        accepted = set()

        def enqueue(number):
            answer = daemon.ask("POST", "/v1/outbox/a", b"x" * 50_000,
                                {"Idempotency-Key": f"full-{number}"})
            if answer.status == 202:
                accepted.add(f"full-{number}")
            return answer

        for number in range(1000):
            answer = enqueue(number)
            if answer.status != 202:
                break
        self.assertEqual(answer.status, 503, answer.body)
        self.assertIn("Retry-After", answer.headers)
        self.assertEqual(daemon.ask("GET", "/health/live").status, 200)
        subprocess.run(["mount", "-o", "remount,size=32m", folder], check=True)
        self.assertEqual(enqueue("again").status, 202)
        self.assertEqual(self.stored(daemon), accepted)
        self.assertEqual(daemon.stop(), 0)


@unittest.skipUnless(os.environ.get("TWINBOX_TEST_POSTGRES"), "no PostgreSQL is there")
class FaultsOnPostgres(Faults, unittest.TestCase):
    def setUp(self):
        schema = f"daemon_{os.getpid()}_{random.randrange(10**9)}"
        self.config = f'[store.main]\nurl = "env:PLACE"\nschema = "{schema}"\n' \
                      '[access]\ntoken_file = "tokens"\n'

    place = os.environ.get("TWINBOX_TEST_POSTGRES")

    def start(self, **options):
        options["environment"] = {"PLACE": self.place}
        return super().start(**options)

    def test_a_stop_ends_though_the_server_has_fallen_silent(self):
        host, port = re.search(r"@([^:/]+):(\d+)/", self.place).groups()
        path = Path(host, int(port))
        self.addCleanup(path.listener.close)
        self.place = self.place.replace(f"@{host}:{port}/", f"@127.0.0.1:{path.port()}/")
        self.config += '[limit]\nshutdown_timeout = "0s"\n[dispatch]\ngrace = "0s"\n'
        daemon = self.start()
        self.assertEqual(daemon.ask("POST", "/v1/outbox/a", b"x").status, 202)
        path.silent.set()
        connection = daemon.connect()
        self.addCleanup(connection.close)
        connection.request("POST", "/v1/outbox/a", b"x")
        self.assertTrue(path.taken.wait(LIMIT))
        self.assertEqual(daemon.stop(), 0)
        answer = connection.getresponse()
        self.assertEqual(answer.status, 503, answer.read())
        # On a busy machine the stop may reach its bound.
        self.assertTrue(any(re.search(" stopped$| shutdown_forced ", line) for line in daemon.lines), daemon.lines)


if __name__ == "__main__":
    unittest.main()
