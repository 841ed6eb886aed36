"""Bounds: sizes, times and numbers of what a client can send."""
import contextlib
import hashlib
import random
import re
import resource
import select
import socket
import time
import unittest

from daemon import LIMIT, Daemon, new_folder
from store import SqliteStore

HEAD = b"POST /v1/outbox/a HTTP/1.1\r\nHost: localhost\r\n"
LIVE = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"


def memory_of(daemon):
    """Resident bytes."""
    with open(f"/proc/{daemon.process.pid}/status") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def statuses(answers):
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", answers)]


def read_all(connection):
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


class Sizes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon("[limit]\nbody_bytes = 1000\nheader_bytes = 2048\n"
                            "[log]\naccess = false\n").start()

    @classmethod
    def tearDownClass(cls):
        assert cls.daemon.stop() == 0

    def test_a_body_at_the_limit_and_one_byte_more(self):
        self.assertEqual(self.daemon.ask("POST", "/v1/outbox/a", b"x" * 1000).status, 202)
        answer = self.daemon.ask("POST", "/v1/outbox/a", b"x" * 1001)
        self.assertEqual(answer.status, 413)
        self.assertIn("1000 bytes; raise limit.body_bytes", answer.json()["detail"])

    def test_a_body_whose_length_is_not_said_before(self):
        def chunked(size):
            return HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"%x\r\n" % size + \
                b"x" * size + b"\r\n0\r\n\r\n"
        self.assertIn(b" 202 ", self.daemon.raw(chunked(1000)))
        self.assertIn(b" 413 ", self.daemon.raw(chunked(1001)))

    def test_a_body_that_is_announced_too_large_is_not_waited_for(self):
        answer = self.daemon.raw(HEAD + b"Content-Length: 99999999\r\n"
                                        b"Expect: 100-continue\r\n\r\n")
        self.assertTrue(answer.startswith(b"HTTP/1.1 413 "), answer)

    def test_a_body_that_is_expected(self):
        connection = socket.create_connection((self.daemon.host, self.daemon.port), LIMIT)
        with connection:
            connection.sendall(HEAD + b"Content-Length: 3\r\nExpect: 100-Continue\r\n"
                                      b"Connection: close\r\n\r\n")
            self.assertEqual(connection.recv(1000), b"HTTP/1.1 100 Continue\r\n\r\n")
            connection.sendall(b"abc")
            self.assertIn(b" 202 ", read_all(connection))

    def test_a_header_that_is_too_large(self):
        answer = self.daemon.ask("GET", "/health/live", headers={"X-Long": "x" * 3000})
        self.assertEqual(answer.status, 431)
        self.assertEqual(self.daemon.ask("GET", "/" + "x" * 3000).status, 431)

    def test_requests_that_come_at_once_are_answered_in_their_order(self):
        targets = ["/health/live", "/v1/stores", "/nothing", "/health/live", "/v1/messages"]
        data = b"".join(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % target.encode()
                        for target in targets)
        data += HEAD + b"Content-Length: 2\r\n\r\nab" + LIVE
        self.assertEqual(statuses(self.daemon.raw(data)), [200, 200, 404, 200, 200, 202, 200])

    def test_empty_lines_between_requests_belong_to_none(self):
        data = b"\r\n" + LIVE + HEAD + b"Content-Length: 2\r\n\r\nab" + b"\r\n\r\n" + LIVE
        self.assertEqual(statuses(self.daemon.raw(data)), [200, 202, 200])
        with socket.create_connection((self.daemon.host, self.daemon.port), LIMIT) as connection:
            for _ in range(2):
                connection.sendall(b"\r\n")
                connection.sendall(LIVE)
                self.assertIn(b" 200 ", connection.recv(1000))

    def test_a_target_with_its_host(self):
        answer = self.daemon.raw(b"GET http://localhost/health/live HTTP/1.1\r\n"
                                 b"Host: evil.example\r\n\r\n")
        self.assertEqual(statuses(answer), [200], answer)
        answer = self.daemon.raw(b"GET http://evil.example/health/live HTTP/1.1\r\n"
                                 b"Host: localhost\r\n\r\n")
        self.assertEqual(statuses(answer), [421], answer)

    def test_a_refused_body_does_not_become_the_next_request(self):
        body = LIVE
        answer = self.daemon.raw(b"POST /nothing HTTP/1.1\r\nHost: localhost\r\n"
                                 b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.assertEqual(statuses(answer), [404], answer)

    def test_old_clients_and_heads(self):
        answer = self.daemon.raw(b"GET /health/live HTTP/1.0\r\nHost: localhost\r\n\r\n")
        self.assertIn(b"Connection: close", answer)
        answer = self.daemon.ask("HEAD", "/health/live")
        self.assertEqual((answer.status, answer.body), (200, b""))
        self.assertEqual(answer.headers["Content-Length"], "17")


class Malformed(unittest.TestCase):
    def test_ten_thousand_requests_that_are_none(self):
        chance = random.Random(7117)
        good = HEAD + b"Content-Length: 11\r\nContent-Type: text/plain\r\n\r\nhello world"
        with Daemon("[log]\naccess = false\n") as daemon:
            self.assertEqual(daemon.ask("GET", "/health/live").status, 200)
            before = memory_of(daemon)
            for _ in range(10_000):
                data = bytearray(good)
                for _ in range(chance.randrange(1, 6)):
                    place = chance.randrange(len(data))
                    kind = chance.randrange(3)
                    if kind == 0:
                        data[place] = chance.randrange(256)
                    elif kind == 1:
                        del data[place:place + chance.randrange(1, 8)]
                    else:
                        data[place:place] = chance.randbytes(chance.randrange(1, 8))
                answer = daemon.raw(bytes(data))
                self.assertTrue(answer == b"" or answer.startswith(b"HTTP/1.1 "), answer)
                self.assertNotIn(b" 500 ", answer, bytes(data))
            self.assertEqual(daemon.ask("GET", "/health/live").status, 200)
            self.assertLess(memory_of(daemon) - before, 64 * 1024 * 1024)
            self.assertEqual(daemon.stop(), 0)

    def test_two_lengths_are_no_way_in(self):
        smuggled = b"GET /v1/stores HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with Daemon() as daemon:
            for fields in [b"Content-Length: 3\r\nContent-Length: 4\r\n",
                           b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
                           b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
                           b"Content-Length: +3\r\n", b"Content-Length: 0x3\r\n"]:
                answer = daemon.raw(HEAD + fields + b"\r\nabc" + smuggled)
                self.assertEqual(statuses(answer), [400], (fields, answer))
            for coding in [b"gzip", b"gzip, chunked", b"chunked\r\nTransfer-Encoding: chunked",
                           b"\xffchunked\r\nContent-Length: 3"]:
                answer = daemon.raw(HEAD + b"Transfer-Encoding: " + coding + b"\r\n\r\nabc" +
                                    smuggled)
                self.assertIn(statuses(answer), ([400], [501]), (coding, answer))
            self.assertEqual(daemon.stop(), 0)


class Times(unittest.TestCase):
    CONFIG = ('[limit]\nheader_timeout = "300ms"\nbody_timeout = "300ms"\nidle_timeout = "300ms"\n'
              '[log]\naccess = false\n')

    def test_who_is_slow_is_closed_in_each_phase(self):
        with Daemon(self.CONFIG) as daemon:
            for sent in [b"", b"GET /health/li", HEAD + b"Content-Length: 10\r\n\r\nabc"]:
                with socket.create_connection((daemon.host, daemon.port), LIMIT) as connection:
                    connection.sendall(sent)
                    self.assertEqual(read_all(connection), b"", sent)
            with contextlib.suppress(ConnectionError):  # a busy machine may be too slow itself
                self.assertEqual(daemon.ask("GET", "/health/live").status, 200)
            self.assertEqual(daemon.stop(), 0)


class Busy(unittest.TestCase):
    """When there is no room the answer is 503 with Retry-After, and nothing is lost."""

    def daemon(self, config):
        daemon = Daemon(config + "[log]\naccess = false\n").start()
        self.addCleanup(daemon.__exit__)
        self.insist(daemon, "POST", "/v1/outbox/a", b"x", {"Idempotency-Key": "first"})
        return daemon, SqliteStore(daemon.folder)

    def insist(self, daemon, *request):
        """Again until there is time for it: a busy machine may take longer than the limits here."""
        end = time.monotonic() + LIMIT
        while (answer := daemon.ask(*request)).status == 503:
            self.assertLess(time.monotonic(), end)
        self.assertIn(answer.status, (200, 202), answer.body)
        return answer

    def connect(self, daemon, sent):
        connection = socket.create_connection((daemon.host, daemon.port), LIMIT)
        self.addCleanup(connection.close)
        connection.sendall(sent)
        return connection

    def test_more_requests_than_the_queue_holds(self):
        daemon, store = self.daemon("[server]\nintake_threads = 1\nqueue_size = 1\n"
                                    '[limit]\nrequest_timeout = "2m"\n'
                                    '[store.main]\nurl = "sqlite:twinbox.db"\n'
                                    'wait_timeout = "2m"\n[access]\ntoken_file = "tokens"\n')
        with store.held():
            sent = [self.connect(daemon, HEAD + b"Content-Length: 1\r\nConnection: close\r\n"
                                 b"Idempotency-Key: q%d\r\n\r\nx" % number)
                    for number in range(20)]
            waiting, refused = set(sent), []
            # One is at work and one waits, unless it came before the worker had taken the first.
            while len(refused) < 18:
                ready, _, _ = select.select(list(waiting), [], [], LIMIT)
                self.assertTrue(ready)
                for connection in ready:
                    waiting.discard(connection)
                    refused.append(read_all(connection))
            for answer in refused:
                self.assertTrue(answer.startswith(b"HTTP/1.1 503 "), answer)
                self.assertIn(b"Retry-After: 1", answer)
                self.assertIn(b"server.queue_size", answer)
            self.assertEqual(daemon.ask("GET", "/health/live").status, 200)
        answers = sum((statuses(read_all(connection)) for connection in waiting), [])
        self.assertIn(202, answers)
        self.assertLessEqual(set(answers), {202, 503})
        self.assertEqual(len(daemon.ask("GET", "/v1/messages").json()["messages"]),
                         1 + answers.count(202))
        self.assertEqual(daemon.stop(), 0)

    def test_a_request_that_takes_too_long_may_be_done_all_the_same(self):
        daemon, store = self.daemon('[limit]\nrequest_timeout = "200ms"\n')
        with store.held():
            answer = daemon.ask("POST", "/v1/outbox/a", b"x", {"Idempotency-Key": "slow"})
            self.assertEqual((answer.status, answer.headers["Retry-After"]), (503, "1"))
            self.assertEqual(answer.headers["Connection"], "close")
            self.assertIn("same id", answer.json()["detail"])
        self.insist(daemon, "POST", "/v1/outbox/a", b"x", {"Idempotency-Key": "slow"})
        self.assertEqual(len(self.insist(daemon, "GET", "/v1/messages").json()["messages"]), 2)
        self.assertEqual(daemon.stop(), 0)

    def body_bytes(self, daemon):
        """Of those with a token, and of the others."""
        text = daemon.operate("GET", "/metrics").body.decode()
        return [int(re.search(rf'twinbox_http_body_bytes{{sender="{sender}"}} (\d+)', text)[1])
                for sender in ["token", "anonymous"]]

    def wait_until_empty(self, daemon):
        end = time.monotonic() + LIMIT
        while self.body_bytes(daemon) != [0, 0]:
            self.assertLess(time.monotonic(), end)

    def send_all_but_one_byte(self, daemon, size):
        """Of a body; once the daemon holds what was sent."""
        before = self.body_bytes(daemon)[1]
        large = self.connect(daemon, HEAD + b"Content-Length: %d\r\nConnection: close\r\n\r\n" % size)
        large.sendall(b"x" * (size - 1))
        end = time.monotonic() + LIMIT
        while self.body_bytes(daemon)[1] != before + size - 1:
            self.assertLess(time.monotonic(), end)
        return large

    def test_a_body_without_a_token_that_stalls_makes_room_for_others(self):
        size = 1024 * 1024
        daemon, _ = self.daemon(f'[limit]\nbody_bytes = {size}\nanonymous_bytes = {size}\n'
                                'header_timeout = "1h"\nbody_timeout = "1h"\n')
        daemon.wait_for_token()
        large = self.send_all_but_one_byte(daemon, size)
        self.assertEqual(daemon.operate("POST", "/v1/outbox/a", b"xx").status, 202)
        self.assertEqual(daemon.ask("GET", "/health/live").status, 200)
        self.assertEqual(daemon.ask("POST", "/v1/outbox/a", b"x").status, 202)  # there is room
        large.sendall(b"x")
        self.assertEqual(statuses(read_all(large)), [202])
        large = self.send_all_but_one_byte(daemon, size)
        self.assertEqual(daemon.ask("POST", "/v1/outbox/a", b"xx").status, 202)
        answer = read_all(large)
        self.assertEqual(statuses(answer), [503])
        self.assertIn(b"Retry-After: 1", answer)
        self.assertIn(b"bodies", answer)
        self.wait_until_empty(daemon)
        self.assertEqual(daemon.stop(), 0)

    def test_bodies_that_are_being_handled_make_no_room(self):
        size = 1024 * 1024
        daemon, store = self.daemon('[store.main]\nurl = "sqlite:twinbox.db"\nwait_timeout = "2m"\n'
                                    '[access]\ntoken_file = "tokens"\n'
                                    f'[limit]\nbody_bytes = {size}\nanonymous_bytes = {size}\n'
                                    'request_timeout = "2m"\n')
        daemon.wait_for_token()
        with store.held():
            handled = self.send_all_but_one_byte(daemon, size)
            handled.sendall(b"x")
            end = time.monotonic() + LIMIT
            while self.body_bytes(daemon)[1] != size:
                self.assertLess(time.monotonic(), end)
            answer = daemon.ask("POST", "/v1/outbox/a", b"xx")
            self.assertEqual(answer.headers["Retry-After"], "1")
            self.assertIn("bodies", answer.json()["detail"])
        self.assertEqual(statuses(read_all(handled)), [202])
        self.assertEqual(daemon.stop(), 0)

    def test_300_bodies_that_are_announced_and_do_not_come(self):
        daemon, _ = self.daemon('[webhook.shop]\nscheme = "github"\nsecrets = ["env:PATH"]\n')
        daemon.wait_for_token()
        length = b"Content-Length: 1048576\r\n\r\n"
        hook = b"POST /webhooks/shop HTTP/1.1\r\nHost: localhost\r\n"
        for sent in [HEAD + length, hook + length + b"abc"]:
            for _ in range(300):
                self.connect(daemon, sent)
        self.assertEqual(daemon.ask("POST", "/v1/outbox/a", b"x").status, 202)
        self.assertEqual(daemon.operate("POST", "/v1/outbox/a", b"x").status, 202)
        self.assertEqual(daemon.ask("POST", "/webhooks/shop", b"x").status, 401)
        self.assertEqual(daemon.stop(), 0)

    def test_bodies_that_come_too_slowly_are_given_up(self):
        daemon, _ = self.daemon('[limit]\nheader_timeout = "500ms"\nbody_timeout = "1h"\n'
                                "body_rate = 1048576\n")
        daemon.wait_for_token()
        slow = {self.connect(daemon, HEAD + b"Content-Length: 1048576\r\n\r\n") for _ in range(300)}
        self.insist(daemon, "POST", "/v1/outbox/a", b"x")
        end = time.monotonic() + LIMIT
        while slow:
            self.assertLess(time.monotonic(), end)
            for connection in list(slow):
                try:
                    connection.sendall(b"x")
                except OSError:  # closed by the daemon
                    slow.discard(connection)
        self.wait_until_empty(daemon)
        self.assertEqual(daemon.stop(), 0)

    def test_what_needs_no_body_is_refused_one_at_the_head(self):
        daemon, _ = self.daemon("")
        for target, status in [(b"/v1/login", 413), (b"/webhooks/none", 404), (b"/nothing", 404)]:
            answer = read_all(self.connect(daemon, b"POST %s HTTP/1.1\r\nHost: localhost\r\n"
                                           b"Content-Length: 5000\r\n\r\n" % target))
            self.assertEqual(statuses(answer), [status], answer)
        self.assertEqual(daemon.stop(), 0)

    def without_their_bodies(self, daemon, head, count=2):
        """Connections that the daemon has asked for the two bytes of their bodies."""
        half = head + b"Content-Length: 2\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
        asked = []
        end = time.monotonic() + LIMIT  # until the daemon has seen that earlier ones are closed
        while len(asked) < count:
            self.assertLess(time.monotonic(), end)
            connection = self.connect(daemon, half)
            if connection.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n":
                asked.append(connection)
        return asked

    def test_bodies_without_a_token_that_do_not_come_make_room_for_others(self):
        daemon, _ = self.daemon("[limit]\nconnections = 2\n")
        login = b"POST /v1/login HTTP/1.1\r\nHost: localhost\r\n"
        for head in [login, HEAD]:
            waiting = self.without_their_bodies(daemon, head)
            self.assertEqual(daemon.ask("GET", "/health/live").status, 200)
            self.assertEqual(read_all(waiting[0]), b"")
        self.assertEqual(daemon.stop(), 0)

    def deaf(self, daemon, count, head=b""):
        """Connections with answers that nobody reads, until the daemon reads no more of them."""
        ask = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n"
        for _ in range(count):
            deaf = socket.socket()
            self.addCleanup(deaf.close)
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect((daemon.host, daemon.port))
            deaf.settimeout(0)
            # Until the daemon reads no more, as it cannot write.
            with contextlib.suppress(BlockingIOError):
                while True:
                    deaf.send(ask * 1000)

    def test_answers_without_a_token_that_are_not_read_make_room_for_others(self):
        daemon, _ = self.daemon('[limit]\nconnections = 2\nwrite_timeout = "1h"\n')
        self.deaf(daemon, 2)
        self.insist(daemon, "GET", "/health/live")
        self.assertEqual(daemon.stop(), 0)

    def two_tokens(self, config):
        """A daemon and the headers of two tokens."""
        folder = new_folder("twinbox_limits_")
        with open(f"{folder}/twinbox.tokens", "w") as tokens:
            for name in ["one", "two"]:
                tokens.write(f"{name} admin {hashlib.sha256(name.encode()).hexdigest()}\n")
        daemon = Daemon(config + "[log]\naccess = false\n", folder=folder).start()
        self.addCleanup(daemon.__exit__)
        self.assertEqual(daemon.ask("POST", "/v1/outbox/a", b"x").status, 202)
        return daemon, [b"Authorization: Bearer %s\r\n" % name for name in [b"one", b"two"]]

    def test_one_token_cannot_hold_all_connections_with_bodies_that_do_not_come(self):
        daemon, (one, _) = self.two_tokens("[limit]\nconnections = 4\n")
        waiting = self.without_their_bodies(daemon, HEAD + one, 4)
        self.insist(daemon, "GET", "/health/live")
        self.assertEqual(read_all(waiting[0]), b"")  # the oldest made room
        self.assertEqual(daemon.stop(), 0)

    def test_one_token_cannot_hold_all_connections_with_answers_that_it_does_not_read(self):
        daemon, (one, _) = self.two_tokens('[limit]\nconnections = 4\nwrite_timeout = "1h"\n')
        self.deaf(daemon, 4, one)
        self.insist(daemon, "GET", "/health/live")
        self.assertEqual(daemon.stop(), 0)

    def test_the_slow_bodies_of_one_token_take_no_room_from_others(self):
        size = 1024 * 1024
        daemon, (one, two) = self.two_tokens(
            f'[limit]\nbody_bytes = {size}\nbuffered_bytes = {2 * size}\n'
            'header_timeout = "1h"\nbody_timeout = "1h"\n')

        def send(head, length, body):
            return self.connect(daemon, HEAD + head + b"Connection: close\r\n" +
                                b"Content-Length: %d\r\n\r\n" % length + body)

        def held(bytes_held):
            end = time.monotonic() + LIMIT
            while True:
                text = daemon.ask("GET", "/metrics").body.decode()
                if f'body_bytes{{sender="token"}} {bytes_held}\n' in text:
                    return
                self.assertLess(time.monotonic(), end)

        slow = send(one, size, b"x" * (size - 1))
        held(size - 1)
        for _ in range(2):
            self.assertEqual(statuses(read_all(send(one, 2, b"xx"))), [503])
            self.assertEqual(statuses(read_all(send(two, size, b"x" * size))), [202])
        slow.sendall(b"x")
        self.assertEqual(statuses(read_all(slow)), [202])
        held(0)
        self.assertEqual(daemon.stop(), 0)

    def test_more_connections_than_there_may_be_all_of_them_at_work(self):
        daemon, both = self.two_tokens("[limit]\nconnections = 2\n")
        at_work = [self.without_their_bodies(daemon, HEAD + one, 1)[0] for one in both]
        for _ in range(100):
            answer = read_all(self.connect(daemon, LIVE))
            self.assertTrue(answer.startswith(b"HTTP/1.1 503 "), answer)
            self.assertIn(b"Retry-After: 1", answer)
        for connection in at_work:
            connection.sendall(b"ab")
            self.assertEqual(statuses(read_all(connection)), [202])
            connection.close()
        end = time.monotonic() + LIMIT  # until the daemon has seen that they are closed
        while daemon.ask("GET", "/health/live").status != 200:
            self.assertLess(time.monotonic(), end)
        self.assertEqual(daemon.stop(), 0)


class Crowds(unittest.TestCase):
    def setUp(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < 6000:
            self.skipTest("too few file descriptors for the test itself")
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    def crowd(self, daemon, count, sent):
        with contextlib.ExitStack() as stack:
            for _ in range(count):
                connection = socket.create_connection((daemon.host, daemon.port), LIMIT)
                stack.callback(connection.close)
                if sent:
                    connection.sendall(sent)
            return stack.pop_all()

    def test_good_clients_are_served_beside_5000_idle_and_slow_ones(self):
        with Daemon("[log]\naccess = false\n") as daemon:
            before = memory_of(daemon)
            with self.crowd(daemon, 4000, b""), self.crowd(daemon, 1000, b"GET /health/li"):
                connection = daemon.connect()
                for _ in range(200):
                    answer = daemon.ask("POST", "/v1/outbox/a", b"x", connection=connection)
                    self.assertEqual(answer.status, 202)
                connection.close()
                self.assertLess(memory_of(daemon) - before, 200 * 1024 * 1024)
            self.assertEqual(daemon.stop(), 0)

    def test_beyond_the_limit_the_oldest_that_waits_makes_room(self):
        with Daemon("[limit]\nconnections = 50\n[log]\naccess = false\n") as daemon:
            oldest = socket.create_connection((daemon.host, daemon.port), LIMIT)
            with oldest, self.crowd(daemon, 200, b"GET /health/li"):
                self.assertEqual(read_all(oldest), b"")
                for _ in range(20):
                    self.assertEqual(daemon.ask("GET", "/health/live").status, 200)
            self.assertEqual(daemon.stop(), 0)


if __name__ == "__main__":
    unittest.main()
