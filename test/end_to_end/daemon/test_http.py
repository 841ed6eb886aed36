"""What HTTP asks of a server, on the bytes of its answers."""
import email.utils
import gzip
import socket
import unittest

from daemon import LIMIT, Daemon


def read_answer(connection):
    """One answer of a connection that may stay open: its status line, headers and body."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65536)
        if not part:
            raise AssertionError(f"the connection ended: {data}")
        data += part
    head, body = data.split(b"\r\n\r\n", 1)
    line, *fields = head.decode().split("\r\n")
    headers = {name.lower(): value for name, value in (field.split(": ", 1) for field in fields)}
    while len(body) < int(headers.get("content-length", 0)):
        body += connection.recv(65536)
    return line, headers, body


class Http(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon('[[route]]\nname = "all"\nsink = "log"\n[sink.log]\ntype = "log"\n').start()
        cls.daemon.wait_for_token()

    @classmethod
    def tearDownClass(cls):
        assert cls.daemon.stop() == 0

    def connect(self):
        return socket.create_connection((self.daemon.host, self.daemon.port), timeout=LIMIT)

    def test_every_answer_has_a_date(self):
        for target in ["/health/live", "/nothing", "/v1/outbox/%zz"]:
            answer = self.daemon.ask("GET", target)
            self.assertEqual(len(answer.headers.get_all("Date", [])), 1, target)
            date = email.utils.parsedate_to_datetime(answer.headers["Date"])
            self.assertEqual(email.utils.format_datetime(date, usegmt=True), answer.headers["Date"])
        self.assertIn(b"\r\nDate: ", self.daemon.raw(b"nonsense\r\n\r\n"))
        with self.daemon.live() as live:
            self.assertIsNotNone(live.response.headers["Date"])

    def test_allow_names_head_where_get_is_allowed(self):
        self.assertEqual(self.daemon.ask("PUT", "/v1/messages").headers["Allow"], "GET, HEAD")
        self.assertEqual(self.daemon.ask("GET", "/v1/outbox/a").headers["Allow"], "POST")

    def test_a_page_without_compression(self):
        page = self.daemon.ask("GET", "/", headers={"Accept-Encoding": "gzip"})
        if page.status == 404:
            self.skipTest(page.json()["detail"])
        for accepted in ["identity", "br", "gzip;q=0", "gzip; q=0.0, *", "*;q=0, identity"]:
            plain = self.daemon.ask("GET", "/", headers={"Accept-Encoding": accepted})
            self.assertEqual(plain.status, 200, accepted)
            self.assertNotIn("Content-Encoding", plain.headers)
            self.assertEqual(plain.headers["Vary"], "Accept-Encoding")
            self.assertNotEqual(plain.headers["ETag"], page.headers["ETag"])
            self.assertEqual(plain.body, gzip.decompress(page.body), accepted)
            again = self.daemon.ask("GET", "/", headers={
                "Accept-Encoding": accepted, "If-None-Match": plain.headers["ETag"]})
            self.assertEqual((again.status, again.body), (304, b""))

    def test_http_1_0_needs_no_host_and_closes(self):
        answer = self.daemon.raw(b"GET /health/live HTTP/1.0\r\n\r\n")
        self.assertTrue(answer.startswith(b"HTTP/1.1 200 OK\r\n"), answer)
        self.assertIn(b"\r\nConnection: close\r\n", answer)
        answer = self.daemon.raw(b"GET http://localhost/health/live HTTP/1.0\r\n\r\n")
        self.assertTrue(answer.startswith(b"HTTP/1.1 200 OK\r\n"), answer)

    def test_http_1_0_keeps_the_connection_where_it_asks_to_and_is_told(self):
        with self.connect() as connection:
            for _ in range(2):
                connection.sendall(b"GET /health/live HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
                line, headers, body = read_answer(connection)
                self.assertEqual((line, headers["connection"], body),
                                 ("HTTP/1.1 200 OK", "keep-alive", b'{"status":"live"}'))
            connection.sendall(b"GET /health/live HTTP/1.0\r\n\r\n")
            self.assertEqual(read_answer(connection)[1]["connection"], "close")
            self.assertEqual(connection.recv(1), b"")

    def test_http_1_1_says_nothing_about_a_connection_that_it_keeps(self):
        with self.connect() as connection:
            connection.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertNotIn("connection", read_answer(connection)[1])

    def test_http_1_0_gets_no_interim_answer(self):
        bearer = b"Authorization: Bearer " + self.daemon.token.encode() + b"\r\n"
        answer = self.daemon.raw(b"POST /v1/outbox/a HTTP/1.0\r\n" + bearer +
                                 b"Expect: 100-continue\r\nContent-Length: 1\r\n\r\nx")
        self.assertTrue(answer.startswith(b"HTTP/1.1 202 Accepted\r\n"), answer)

    def test_without_a_host_a_request_counts_as_one_from_elsewhere(self):
        def status(head):
            return self.daemon.raw(head.encode() + b"\r\n").split(b" ", 2)[1]

        self.assertEqual(status("GET /v1/stores HTTP/1.0\r\n"), b"401")
        bearer = f"Authorization: Bearer {self.daemon.token}\r\n"
        self.assertEqual(status(f"GET /v1/stores HTTP/1.0\r\n{bearer}"), b"200")
        for host in ["Origin: http://localhost\r\n", "Origin: null\r\n", "Sec-Fetch-Site: cross-site\r\n"]:
            self.assertEqual(status(f"GET /v1/stores HTTP/1.0\r\n{bearer}{host}"), b"403", host)
        self.assertEqual(status("GET /health/live HTTP/1.0\r\nHost: evil.example\r\n"), b"421")
        self.assertEqual(status("GET http://evil.example/health/live HTTP/1.0\r\n"), b"421")
        self.assertEqual(status("GET /health/live HTTP/1.0\r\nHost: localhost\r\nHost: localhost\r\n"),
                         b"400")
        self.assertEqual(status("GET /health/live HTTP/1.1\r\n"), b"400")

    def test_a_session_counts_only_with_a_host(self):
        login = self.daemon.ask("POST", "/v1/login", '{"token":"%s"}' % self.daemon.token)
        cookie = login.headers["Set-Cookie"].split(";")[0]
        for version, host, expected in [("1.1", "Host: localhost\r\n", b"200"),
                                        ("1.0", "Host: localhost\r\n", b"200"), ("1.0", "", b"401")]:
            answer = self.daemon.raw(
                f"GET /v1/stores HTTP/{version}\r\n{host}Cookie: {cookie}\r\n\r\n".encode())
            self.assertEqual(answer.split(b" ", 2)[1], expected, (version, host))

    def test_what_a_control_does_not_find_is_404(self):
        for target, body, words in [("/v1/routes/none/enable", "", "route 'none'"),
                                    ("/v1/routes/none/disable", "{}", "route 'none'"),
                                    ("/v1/dispatch/pause", '{"store":"none"}', "store 'none'"),
                                    ("/v1/dispatch/resume", '{"store":"none"}', "store 'none'")]:
            answer = self.daemon.operate("POST", target, body)
            self.assertEqual(answer.status, 404, (target, answer.body))
            self.assertIn(words, answer.json()["detail"])
        answer = self.daemon.operate("POST", "/v1/dispatch/pause", '{"store":"main","topic":"a"}')
        self.assertEqual(answer.status, 400)


if __name__ == "__main__":
    unittest.main()
