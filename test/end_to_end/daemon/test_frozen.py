"""A primary that is frozen or silent: the start, the other stores, the answers and the stop go on."""
import contextlib
import os
import pathlib
import random
import re
import select
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from daemon import LIMIT, PROGRAM, Daemon

SERVERS = os.environ.get("TWINBOX_TEST_SERVERS")
HEALTHY = '[store.healthy]\nurl = "sqlite:twinbox.db"\n[access]\ntoken_file = "tokens"\n[log]\naccess = false\n'


class SilentServer:
    """Takes connections, and never answers."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.taken = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                self.taken.append(self.listener.accept()[0])

    def store(self, name):
        """A daemon's store there, whose calls wait for ever."""
        return f'[store.{name}]\nurl = "postgresql://u@127.0.0.1:{self.listener.getsockname()[1]}/{name}' \
               '?connect_timeout=0"\nanswer_timeout = "0s"\nwait_timeout = "1h"\n'

    def close(self):
        self.listener.close()
        for one in self.taken:
            one.close()


class Silent(unittest.TestCase):
    def setUp(self):
        self.server = SilentServer()
        self.addCleanup(self.server.close)

    def start(self, config):
        daemon = Daemon(config + '[limit]\nrequest_timeout = "1h"\nshutdown_timeout = "0s"\n[dispatch]\ngrace = "0s"\n')
        daemon.start()
        self.addCleanup(daemon.__exit__)
        return daemon

    def test_stores_hold_up_neither_the_start_nor_the_others(self):
        daemon = self.start(self.server.store("a") + HEALTHY + self.server.store("z"))
        self.assertEqual(daemon.ask("GET", "/health/live").status, 200)
        self.assertEqual(daemon.ask("POST", "/v1/outbox/a?store=healthy", b"x").status, 202)
        ready = daemon.ask("GET", "/health/ready")
        self.assertEqual(ready.status, 503)
        waited_for = [line for line in daemon.lines if "store_unavailable" in line]
        self.assertEqual([re.search(r"store=(\S+)", line)[1] for line in waited_for], ["a", "z"])
        self.assertIn("no response yet", waited_for[0])
        self.assertEqual(daemon.stop(), 0)
        self.assertRegex(daemon.lines[-1], " stopped$")

    def test_one_leaves_the_intake_to_the_others(self):
        hooks = "".join(f'[webhook.{store}]\nscheme = "none"\nid = "header:Id"\ntopic = "fixed:a"\nstore = "{store}"\n'
                        for store in ["a", "healthy"])
        daemon = self.start(self.server.store("a") + HEALTHY + '[server]\nintake_threads = 4\nqueue_size = 16\n' + hooks)
        posts = {}
        for number in range(64):
            connection = daemon.connect()
            self.addCleanup(connection.close)
            connection.request("POST", "/webhooks/a", b"x", {"Id": str(number)})
            posts[connection.sock] = connection
        refused = 0
        while refused < 64 - 2 - 4:  # so many run and wait
            answered = select.select(list(posts), [], [], LIMIT)[0]
            self.assertTrue(answered, refused)
            for one in answered:
                answer = posts.pop(one).getresponse()
                self.assertEqual((answer.status, answer.headers["Retry-After"]), (503, "1"), answer.read())
                refused += 1
        for path, id in [("/webhooks/healthy", "1"), ("/v1/outbox/a?store=healthy", "2"),
                         ("/v1/inbox/s/a?store=healthy", "3")]:
            answer = daemon.ask("POST", path, b"x", {"Id": id, "Idempotency-Key": id})
            self.assertEqual(answer.status // 100, 2, (path, answer.body))
        daemon.kill()


@unittest.skipUnless(SERVERS, "no PostgreSQL is there")
class Frozen(unittest.TestCase):
    """A server of its own, whose processes are stopped."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="tb_")
        os.chmod(cls.folder, 0o755)
        subprocess.run([SERVERS, "pair", f"{cls.folder}/s"], check=True, stdout=subprocess.DEVNULL)
        text = pathlib.Path(f"{cls.folder}/s/env").read_text(encoding="utf-8")
        cls.url = re.search(r"TWINBOX_PAIR_PRIMARY=(\S+)", text)[1]
        cls.data = f"{cls.folder}/s/primary/data"

    @classmethod
    def tearDownClass(cls):
        subprocess.run([SERVERS, "stop", f"{cls.folder}/s"], check=True)
        os.rmdir(cls.folder)

    def pids(self):
        """Of the postmaster and what it has started."""
        with open(f"{self.data}/postmaster.pid", encoding="utf-8") as file:
            first = file.readline().strip()
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", first], check=True, text=True,
                                  capture_output=True).stdout.split()
        return [int(pid) for pid in [first, *children]]

    def thaw(self):
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def freeze(self):
        """The postmaster first: it starts no more then."""
        self.addCleanup(self.thaw)
        for _ in range(2):
            for pid in self.pids():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)

    def store(self, more=""):
        return f'[store.main]\nurl = "{self.url}"\nschema = "s{random.randrange(10**9)}"\n{more}'

    def start(self, config):
        daemon = Daemon(config + '[dispatch]\ngrace = "0s"\n').start()
        self.addCleanup(daemon.__exit__)
        self.assertEqual(daemon.ask("POST", "/v1/outbox/a?store=main", b"x").status, 202)
        return daemon

    def test_a_post_is_answered_within_answer_limit_and_readiness_knows(self):
        daemon = self.start(self.store('answer_timeout = "1s"\n') + HEALTHY)
        daemon.wait_until_ready()
        self.freeze()
        answer = daemon.ask("POST", "/v1/outbox/a?store=main", b"x", {"Idempotency-Key": "1"})
        self.assertEqual(answer.status, 503, answer.body)
        self.assertIn("with the same id", answer.json()["detail"])
        self.assertEqual(daemon.ask("POST", "/v1/outbox/a?store=healthy", b"x").status, 202)
        end = time.monotonic() + LIMIT
        while (ready := daemon.ask("GET", "/health/ready")).status != 503:
            self.assertLess(time.monotonic(), end, ready.body)
        stores = {store["store"]: store["status"] for store in ready.json()["stores"]}
        self.assertEqual(stores, {"main": "not_ready", "healthy": "ready"})
        self.thaw()
        answer = daemon.ask("POST", "/v1/outbox/a?store=main", b"x", {"Idempotency-Key": "1"})
        self.assertEqual(answer.status // 100, 2, answer.body)
        daemon.wait_until_ready()
        self.assertEqual(daemon.stop(), 0)

    def test_a_stop_answers_those_who_wait(self):
        daemon = self.start(self.store('answer_timeout = "1h"\n') + HEALTHY +
                            '[limit]\nrequest_timeout = "1h"\nshutdown_timeout = "0s"\n')
        self.freeze()
        posts = []
        for path in ["/v1/outbox/a?store=main", "/v1/inbox/s/a?store=main"]:
            connection = daemon.connect()
            self.addCleanup(connection.close)
            connection.request("POST", path, b"x", {"Idempotency-Key": "1"})
            posts.append(connection)
        self.wait_for_intake(daemon, 2)
        daemon.signal(signal.SIGTERM)
        for post in posts:
            answer = post.getresponse()
            self.assertEqual((answer.status, answer.headers["Retry-After"] is not None), (503, True))
            self.assertIn(b"with the same id", answer.read())
        self.assertEqual(daemon.stop(), 0)
        self.assertRegex(daemon.lines[-1], " stopped$")

    def wait_for_intake(self, daemon, running):
        end = time.monotonic() + LIMIT
        while True:
            text = daemon.ask("GET", "/metrics").body.decode()
            if re.search(r'twinbox_request_pool_running{pool="intake"} (\d+)', text)[1] == str(running):
                return
            self.assertLess(time.monotonic(), end)

    def test_frozen_stores_leave_the_intake_to_a_healthy_one(self):
        stores = "".join(self.store('answer_timeout = "1h"\n').replace("store.main", f"store.{name}")
                         for name in ["main", "b", "c", "d"])
        daemon = self.start(stores + HEALTHY + '[server]\nintake_threads = 2\n[limit]\nrequest_timeout = "1h"\nshutdown_timeout = "0s"\n')
        self.freeze()
        for store in ["main", "b", "c", "d"]:
            for path in ["/v1/outbox/a", "/v1/inbox/s/a"]:
                connection = daemon.connect()
                self.addCleanup(connection.close)
                connection.request("POST", f"{path}?store={store}", b"x", {"Idempotency-Key": "1"})
        self.wait_for_intake(daemon, 6)  # one for each of them, and the two for all
        for number in range(8):
            answer = daemon.ask("POST", "/v1/outbox/a?store=healthy", b"x", {"Idempotency-Key": str(number)})
            self.assertEqual(answer.status, 202, answer.body)
        self.assertEqual(daemon.stop(), 0)

    def test_the_doctor_names_a_missing_standby(self):
        daemon = self.start(self.store("inbox_require_synchronous = true\n"))
        answer = daemon.ask("POST", "/v1/inbox/s/a", b"x", {"Idempotency-Key": "1"})
        self.assertEqual(answer.status, 503, answer.body)
        found = subprocess.run(
            [os.path.abspath(PROGRAM), "doctor", "--config", "twinbox.toml", "--interval", "0s"],
            cwd=daemon.folder, text=True, capture_output=True)
        self.assertEqual(found.returncode, 1, found.stderr)
        self.assertRegex(found.stdout, r"✗ inbox.*replication.*synchronous_standby_names is empty.*require_synchronous")
        self.assertEqual(daemon.stop(), 0)


if __name__ == "__main__":
    unittest.main()
