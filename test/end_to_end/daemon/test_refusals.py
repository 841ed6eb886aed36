"""What is refused, and how."""
import datetime
import hashlib
import unittest

from daemon import Daemon
from test_command_line import twinbox


class Refusals(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon('[webhook.anybody]\nscheme = "none"\n'
                            '[[event]]\nname = "order.paid"\n'
                            '[[subscription]]\nname = "broker"\ntopic = "orders"\n'
                            'route = "/sidecar/orders"\n').start()
        cls.daemon.wait_for_token()

    @classmethod
    def tearDownClass(cls):
        assert cls.daemon.stop() == 0

    def refused(self, status, method, target, body=None, headers=None, words=""):
        answer = self.daemon.ask(method, target, body, headers)
        self.assertEqual(answer.status, status, answer.body)
        self.assertEqual(answer.headers["Content-Type"], "application/problem+json")
        self.assertEqual(answer.json()["status"], status)
        self.assertIn(words, answer.json()["detail"])
        return answer

    def stored(self):
        answer = self.daemon.ask("GET", "/v1/messages?limit=1000")
        return len(answer.json()["messages"])

    def test_what_there_is_not(self):
        self.refused(404, "GET", "/nothing", words="/openapi.json")
        self.refused(404, "POST", "/v1/outbox/", b"x")
        self.refused(404, "POST", "/v1/outbox/a/b", b"x")
        for target in ["/v1/outbox/a", "/v1/inbox/s/a", "/v1/events"]:
            self.refused(404, "POST", target + "?store=nowhere", b"x", words="/v1/stores")
        for target in ["/v1/outbox/a", "/v1/inbox/s/a", "/v1/events"]:
            self.refused(400, "POST", target + "?stroe=main", b"x", words="'stroe'")
        self.refused(400, "GET", "/v1/%zz")
        answer = self.refused(405, "GET", "/v1/outbox/a")
        self.assertEqual(answer.headers["Allow"], "POST")

    def test_what_there_is_not_is_told_before_the_body_is_read(self):
        for target, words in [("/events/nothing/v1", "there is no event 'nothing'"),
                              ("/events/order.paid/v2", "has no version 'v2'"),
                              ("/sidecar/nothing", "no subscription"),
                              ("/webhooks/nobody", "no endpoint has this path"),
                              ("/v1/outbox/a?store=nowhere", "unknown store 'nowhere'"),
                              ("/v1/inbox/s/a?store=nowhere", "unknown store 'nowhere'"),
                              ("/v1/events?store=nowhere", "unknown store 'nowhere'")]:
            with self.subTest(target):
                head = f"POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
                answer = self.daemon.raw(head.encode()).decode()
                self.assertIn(" 404 ", answer.split("\r\n")[0])
                self.assertIn(words, answer)

    def test_a_topic_that_cannot_be(self):
        before = self.stored()
        self.refused(400, "POST", "/v1/outbox/" + "a" * 256, b"x", words="255")
        self.refused(400, "POST", "/v1/outbox/%20", b"x")
        self.refused(400, "POST", "/v1/outbox/%00", b"x")
        self.assertEqual(self.stored(), before)

    def test_a_foreign_host(self):
        for host in ["evil.example", "localhost.evil.example", "evil.example:7117", ""]:
            self.refused(421, "GET", "/health/live", headers={"Host": host})
        for host in ["localhost", "localhost:9", "127.0.0.1", "[::1]:7117"]:
            answer = self.daemon.ask("GET", "/health/live", headers={"Host": host})
            self.assertEqual(answer.status, 200, host)

    def test_a_request_without_a_host_or_with_two(self):
        self.assertIn(b"400 Bad Request", self.daemon.raw(b"GET /health/live HTTP/1.1\r\n\r\n"))
        self.assertIn(b"400 Bad Request", self.daemon.raw(
            b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n"))

    def test_a_page_of_another_origin(self):
        for origin in ["http://evil.example", "null", "http://localhost:3000", "http://127.0.0.1"]:
            self.refused(403, "POST", "/v1/outbox/a", b"x", {"Origin": origin})
        self.refused(403, "GET", "/v1/stores", headers={"Sec-Fetch-Site": "cross-site"})
        own = f"http://127.0.0.1:{self.daemon.port}"
        self.assertEqual(self.daemon.ask("POST", "/v1/outbox/a", b"x", {"Origin": own}).status, 202)

    def test_an_operator_needs_a_token_even_here(self):
        answer = self.refused(401, "POST", "/v1/messages/requeue", b"{}")
        self.assertEqual(answer.headers["WWW-Authenticate"], "Bearer")
        for value in ["Bearer wrong", "Basic abc", "Bearer ", "Bearer"]:
            self.refused(401, "POST", "/v1/messages/requeue", b"{}", {"Authorization": value})
        self.refused(401, "GET", "/v1/stores", headers={"Authorization": "Bearer wrong"})

    def test_a_request_that_a_proxy_brings_is_not_from_here(self):
        for name in ["X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded", "Via",
                     "X-Real-IP", "CF-Connecting-IP", "True-Client-IP", "CDN-Loop"]:
            self.refused(401, "POST", "/v1/outbox/a", b"x", {name: "for=192.0.2.1"})
            self.refused(401, "POST", "/webhooks/anybody", b"x",
                         {name: "for=192.0.2.1", "Idempotency-Key": "w"})
        answer = self.daemon.ask("POST", "/webhooks/anybody", b"x", {"Idempotency-Key": "w"})
        self.assertEqual(answer.status, 202, answer.body)

    def test_a_token_in_the_target_reaches_no_log(self):
        with Daemon() as daemon:
            daemon.ask("GET", "/v1/messages?state=dead&token=SECRET")
            daemon.ask("GET", "/" + "x" * 3000)
            line = daemon.wait_for(r"target=(\S+)")[1]
            self.assertIn("state=dead&token=…", line)
            self.assertLess(len(daemon.wait_for(r"target=(/xx\S+)")[1]), 300)
            self.assertEqual(daemon.stop(), 0)
            self.assertFalse([one for one in daemon.lines if "SECRET" in one])

    def test_a_server_with_names_wants_a_token_here_too(self):
        with Daemon('[server]\nhosts = ["box.example"]\n[webhook.anybody]\nscheme = "none"\n') as daemon:
            daemon.wait_for_token()
            for host in ["localhost", "BOX.example:443"]:
                self.assertEqual(daemon.ask("GET", "/health/live", headers={"Host": host}).status, 200)
                for target in ["/v1/outbox/a", "/webhooks/anybody"]:
                    answer = daemon.ask("POST", target, b"x", {"Host": host, "Idempotency-Key": "w"})
                    self.assertEqual(answer.status, 401, (host, target))
            for host, status in [("box.example", 202), ("box.example:7117", 403), ("localhost", 403)]:
                answer = daemon.operate("POST", "/v1/outbox/a", b"x",
                                        {"Origin": "https://box.example", "Host": host})
                self.assertEqual(answer.status, status, answer.body)
            self.assertEqual(daemon.stop(), 0)

    def test_a_due_time_that_is_not_refused_and_blocks_a_key_is_shown(self):
        with Daemon() as daemon:
            ahead = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=24, minutes=-5)
            keyed = {"Twinbox-Partition-Key": "account 7"}
            answer = daemon.ask("POST", "/v1/outbox/a", b"x", {
                **keyed, "Idempotency-Key": "blocker", "Twinbox-Due": ahead.strftime("%Y-%m-%dT%H:%M:%SZ")})
            self.assertEqual(answer.status, 202, answer.body)
            self.assertEqual(daemon.ask("POST", "/v1/outbox/a", b"x", keyed).status, 202)
            health = daemon.ask("GET", "/health").json()
            self.assertEqual(health["status"], "degraded", health)
            self.assertIn("1 partition key waits for a delivery that is due in more than 1 h",
                          str(health["boxes"]))
            self.assertRegex(twinbox(daemon, "doctor", "--config", "twinbox.toml")[1],
                             r"(?s)partition key account 7\s.*blocker")
            self.assertEqual(daemon.stop(), 0)

    def test_what_an_operation_cannot_mean(self):
        def refused(body, words):
            answer = self.daemon.operate("POST", "/v1/messages/discard", body)
            self.assertEqual(answer.status, 400, answer.body)
            self.assertIn(words, answer.json()["detail"])

        refused("{", "JSON")
        refused("[]", "JSON object")
        refused('{"reason":"r"}', "deliveries, filter, group")
        refused('{"reason":"r","filter":{},"deliveries":[]}', "deliveries, filter, group")
        refused('{"reason":"r","filter":{"stat":"dead"}}', "stat")
        refused('{"reason":"r","filter":{"state":"gone"}}', "state")
        refused('{"filter":{"state":"dead"}}', "reason")
        refused('{"reason":"r","filter":{"state":"dead"},"limit":0}', "limit")
        refused('{"reason":"r","filter":{"state":"dead"},"wat":1}', "wat")
        refused('{"reason":"r","filter":{}}', "state")
        refused('{"reason":"r","filter":{"state":"dead","topic":""}}', "topic: is empty")


class Roles(unittest.TestCase):
    def test_a_token_can_do_what_its_role_says_and_no_more(self):
        daemon = Daemon(local=False)
        roles = ["send", "read", "operate", "admin"]
        (daemon.folder / "twinbox.tokens").write_text("# name role sha256\n" + "".join(
            f"{role} {role} {hashlib.sha256(b'token of ' + role.encode()).hexdigest()}\n"
            for role in roles))
        requests = {
            "send": ("POST", "/v1/outbox/a", b"x", 202),
            "read": ("GET", "/v1/stores", None, 200),
            "operate": ("POST", "/v1/messages/requeue", b'{"filter":{"state":"dead"}}', 200),
        }
        allowed = {"send": {"send"}, "read": {"read"}, "operate": {"read", "operate"},
                   "admin": {"send", "read", "operate"}}
        with daemon:
            for need, (method, target, body, status) in requests.items():
                self.assertEqual(daemon.ask(method, target, body).status, 401)
                for role in roles:
                    answer = daemon.ask(method, target, body,
                                        {"Authorization": f"Bearer token of {role}"})
                    # An operation that a busy machine has not done at once is answered with 202.
                    expected = {status, 202} if need in allowed[role] else {403}
                    self.assertIn(answer.status, expected, (need, role, answer.body))
            self.assertEqual(daemon.ask("GET", "/health/live").status, 200)
            daemon.wait_until_ready()
            self.assertEqual(daemon.stop(), 0)


if __name__ == "__main__":
    unittest.main()
