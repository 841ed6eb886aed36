"""Bounds: sizes, times and numbers of what a client can send."""
import contextlib
import random
import re
import resource
import socket
import unittest

from daemon import LIMIT, Daemon

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
        self.assertIn("1000 bytes", answer.json()["detail"])

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
            connection.sendall(HEAD + b"Content-Length: 3\r\nExpect: 100-continue\r\n"
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
    CONFIG = ('[limit]\nheader_time = "300ms"\nbody_time = "300ms"\nidle_time = "300ms"\n'
              '[log]\naccess = false\n')

    def test_who_is_slow_is_closed_in_each_phase(self):
        with Daemon(self.CONFIG) as daemon:
            for sent in [b"", b"GET /health/li", HEAD + b"Content-Length: 10\r\n\r\nabc"]:
                with socket.create_connection((daemon.host, daemon.port), LIMIT) as connection:
                    connection.sendall(sent)
                    self.assertEqual(read_all(connection), b"", sent)
            self.assertEqual(daemon.ask("GET", "/health/live").status, 200)
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
