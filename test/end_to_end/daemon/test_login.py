"""A browser logs in, and what its cookie is good for."""
import gzip
import hashlib
import json
import re
import signal
import time
import unittest

from daemon import LIMIT, Daemon

ROLES = ["send", "read", "operate", "admin"]


def with_roles(**options):
    """A daemon that knows a token `tokenof<role>` for each role."""
    daemon = Daemon(**options)
    (daemon.folder / "twinbox.tokens").write_text("".join(
        f"{role}1 {role} {hashlib.sha256(b'tokenof' + role.encode()).hexdigest()}\n"
        for role in ROLES))
    return daemon


class Login(unittest.TestCase):
    def log_in(self, daemon, token):
        answer = daemon.ask("POST", "/v1/login", json.dumps({"token": token}))
        return answer, answer.headers.get("Set-Cookie")

    def test_the_cookie_is_hidden_from_scripts_and_other_sites(self):
        with with_roles() as daemon:
            answer, cookie = self.log_in(daemon, "tokenofoperate")
            self.assertEqual(answer.status, 200)
            self.assertEqual(answer.json()["actor"], "operate1")
            name, *attributes = cookie.split("; ")
            self.assertRegex(name, "^twinbox=[0-9a-f]{64}$")
            self.assertEqual(set(attributes), {"Path=/", "HttpOnly", "SameSite=Strict"})
            behind_tls = daemon.ask("POST", "/v1/login", '{"token":"tokenofread"}',
                                    {"X-Forwarded-Proto": "https"})
            self.assertRegex(behind_tls.headers["Set-Cookie"],
                             "^__Host-twinbox=[0-9a-f]{64}; Path=/; .*; Secure$")
            own = {"Cookie": name, "Origin": f"http://127.0.0.1:{daemon.port}"}
            self.assertEqual(daemon.ask("POST", "/v1/dispatch/pause", b"", own).status, 200)
            bearer = {"Authorization": "Bearer " + name.split("=")[1]}
            self.assertEqual(daemon.ask("POST", "/v1/dispatch/pause", b"", bearer).status, 401)
            self.assertEqual(daemon.ask("POST", "/v1/logout", headers={"Cookie": name}).status, 403)
            gone = daemon.ask("POST", "/v1/logout", headers=own)
            self.assertEqual((gone.status, gone.body), (204, b""))
            self.assertIn("twinbox=;", gone.headers["Set-Cookie"])
            self.assertIn("Max-Age=0", gone.headers["Set-Cookie"])
            self.assertEqual(daemon.ask("POST", "/v1/dispatch/pause", b"", own).status, 401)
            self.assertEqual(daemon.stop(), 0)

    def test_a_wrong_token_sets_nothing(self):
        with with_roles() as daemon:
            for token in ["wrong", "", "tokenofadmin "]:
                answer, cookie = self.log_in(daemon, token)
                self.assertEqual((answer.status, cookie), (401, None), token)
                self.assertEqual(answer.headers["Content-Type"], "application/problem+json")
            self.assertEqual(daemon.ask("POST", "/v1/login", "{").status, 400)

    def test_too_many_wrong_tokens_are_refused_for_a_while(self):
        with with_roles() as daemon:
            connection = daemon.connect()
            end = time.monotonic() + LIMIT  # ten a second may fail for ever
            status = 401
            while status == 401:
                self.assertLess(time.monotonic(), end)
                answer = daemon.ask("POST", "/v1/login", '{"token":"wrong"}', connection=connection)
                status = answer.status
            self.assertEqual((status, answer.headers["Retry-After"]), (429, "1"))
            self.assertEqual(answer.headers["Content-Type"], "application/problem+json")
            daemon.wait_for(r"login_refused reason=unknown_token")
            daemon.wait_for(r"login_refused reason=too_many")
            for _ in range(50):  # who knows a token is not locked out by those who do not
                while self.log_in(daemon, "wrong")[0].status != 429:
                    self.assertLess(time.monotonic(), end)
                self.assertEqual(self.log_in(daemon, "tokenofadmin")[0].status, 200)
            connection.close()
            self.assertEqual(daemon.stop(), 0)

    def test_me_tells_what_each_role_may_do(self):
        can = {"send": (False, False), "read": (True, False), "operate": (True, True),
               "admin": (True, True)}
        with with_roles(local=False) as daemon:
            nobody = daemon.ask("GET", "/v1/me").json()
            self.assertEqual((nobody["actor"], nobody["role"]), (None, None))
            self.assertEqual(nobody["can"], {"read": False, "operate": False})
            self.assertRegex(nobody["version"], r"^\d+\.\d+\.\d+$")
            for role, (read, operate) in can.items():
                _, cookie = self.log_in(daemon, "tokenof" + role)
                for headers in ({"Cookie": cookie.split(";")[0]},
                                {"Authorization": "Bearer tokenof" + role}):
                    me = daemon.ask("GET", "/v1/me", headers=headers).json()
                    self.assertEqual((me["actor"], me["role"]), (role + "1", role))
                    self.assertEqual(me["can"], {"read": read, "operate": operate})

    def test_a_session_ends_with_its_token(self):
        with with_roles() as daemon:
            _, cookie = self.log_in(daemon, "tokenofoperate")
            own = {"Cookie": cookie.split(";")[0], "Origin": f"http://127.0.0.1:{daemon.port}"}
            daemon.signal(signal.SIGHUP)
            daemon.wait_for(" reloaded")
            self.assertEqual(daemon.ask("POST", "/v1/dispatch/pause", b"", own).status, 200)
            file = daemon.folder / "twinbox.tokens"
            lines = file.read_text().splitlines(True)
            file.write_text("".join(line for line in lines if not line.startswith("operate1")))
            daemon.signal(signal.SIGHUP)
            daemon.wait_for(" reloaded")
            self.assertEqual(daemon.ask("POST", "/v1/dispatch/pause", b"", own).status, 401)
            file.write_text("".join(lines))  # the token is back, its session is not
            daemon.signal(signal.SIGHUP)
            daemon.wait_for(" reloaded")
            self.assertEqual(daemon.ask("POST", "/v1/dispatch/pause", b"", own).status, 401)
            self.assertEqual(daemon.stop(), 0)

    def test_reading_here_needs_no_login(self):
        with with_roles() as daemon:
            self.assertEqual(daemon.ask("GET", "/v1/me").json()["can"],
                             {"read": True, "operate": False})

    def test_another_page_cannot_operate_with_the_cookie(self):
        with with_roles() as daemon:
            own = f"http://127.0.0.1:{daemon.port}"
            cookie = self.log_in(daemon, "tokenofoperate")[1].split(";")[0]
            act = '{"filter":{"state":"dead"}}'
            for headers, status in [({}, 401),
                                    ({"Origin": "http://127.0.0.1:1"}, 403),
                                    ({"Origin": "null"}, 403),
                                    ({"Sec-Fetch-Site": "same-site"}, 401),
                                    ({"Origin": own, "Sec-Fetch-Site": "cross-site"}, 403)]:
                answer = daemon.ask("POST", "/v1/messages/requeue", act,
                                    {"Cookie": cookie, **headers})
                self.assertEqual(answer.status, status, (headers, answer.body))
            answer = daemon.ask("POST", "/v1/messages/requeue", act,
                                {"Cookie": cookie, "Origin": own})
            self.assertIn(answer.status, (200, 202), answer.body)  # a busy machine goes on with it
            self.assertEqual(daemon.stop(), 0)

    def test_the_first_start_prints_a_link_that_logs_in(self):
        with Daemon() as daemon:
            daemon.wait_for_token()
            page = daemon.ask("GET", "/", headers={"Accept-Encoding": "gzip"})
            self.assertEqual(daemon.stop(), 0)
            self.assertEqual(daemon.link is not None, page.status == 200)
            if daemon.link:
                self.assertRegex(daemon.link, f"^http://127.0.0.1:{daemon.port}/#token=once_[0-9a-f]+$")
            log = [line for line in daemon.lines if daemon.token in line]
            self.assertEqual(len(log), 1)  # only where it was to be shown

    def test_the_link_logs_in_once_and_is_no_token(self):
        with Daemon() as daemon:
            daemon.wait_for_token()
            if daemon.ask("GET", "/", headers={"Accept-Encoding": "gzip"}).status != 200:
                self.skipTest("built without the page")
            end = time.monotonic() + LIMIT
            while daemon.link is None:  # comes behind the token
                self.assertLess(time.monotonic(), end)
            code = daemon.link.split("#token=")[1]
            bearer = {"Authorization": f"Bearer {code}"}
            self.assertEqual(daemon.ask("POST", "/v1/dispatch/pause", b"", bearer).status, 401)
            answer, cookie = self.log_in(daemon, code)
            self.assertEqual((answer.status, answer.json()["role"]), (200, "admin"))
            own = {"Cookie": cookie.split(";")[0], "Origin": f"http://127.0.0.1:{daemon.port}"}
            self.assertEqual(daemon.ask("POST", "/v1/dispatch/pause", b"", own).status, 200)
            self.assertEqual(self.log_in(daemon, code)[0].status, 401)
            self.assertEqual(daemon.stop(), 0)


class Pages(unittest.TestCase):
    def test_the_page_lets_nothing_in_from_elsewhere(self):
        with Daemon() as daemon:
            page = daemon.ask("GET", "/", headers={"Accept-Encoding": "gzip, br"})
            if page.status == 404:
                self.skipTest(page.json()["detail"])
            self.assertEqual(page.headers["Content-Type"].split(";")[0], "text/html")
            policy = dict(part.strip().split(" ", 1)
                          for part in page.headers["Content-Security-Policy"].split(";"))
            self.assertEqual(policy["default-src"], "'none'")
            self.assertEqual(policy["script-src"], "'self'")
            self.assertEqual(policy["frame-ancestors"], "'none'")
            self.assertNotIn("unsafe", page.headers["Content-Security-Policy"])
            self.assertEqual(page.headers["X-Frame-Options"], "DENY")
            self.assertEqual(page.headers["X-Content-Type-Options"], "nosniff")
            self.assertEqual(page.headers["Referrer-Policy"], "no-referrer")
            text = gzip.decompress(page.body).decode()
            assets = re.findall(r'(?:src|href)="([^"]+)"', text)
            self.assertTrue(assets)
            for path in assets:
                self.assertTrue(path.startswith("/assets/") or path.startswith("#")
                                or path.startswith("./assets/"), path)
                if path.startswith("#"):
                    continue
                answer = daemon.ask("GET", path.lstrip("."), headers={"Accept-Encoding": "gzip"})
                self.assertEqual(answer.status, 200, path)
                self.assertIn("immutable", answer.headers["Cache-Control"])
            again = daemon.ask("GET", "/", headers={"Accept-Encoding": "gzip",
                                                    "If-None-Match": page.headers["ETag"]})
            self.assertEqual((again.status, again.body), (304, b""))
            self.assertEqual(daemon.ask("GET", "/assets/none.js").status, 404)
            self.assertEqual(daemon.ask("HEAD", "/", headers={"Accept-Encoding": "*"}).body, b"")
            self.assertEqual(daemon.stop(), 0)

    def test_the_page_can_be_switched_off(self):
        with Daemon("[dashboard]\nenabled = false\n") as daemon:
            answer = daemon.ask("GET", "/", headers={"Accept-Encoding": "gzip"})
            self.assertEqual(answer.status, 404)
            self.assertEqual(answer.headers["Content-Type"], "application/problem+json")
            daemon.wait_for_token()
            self.assertEqual(daemon.stop(), 0)
            self.assertIsNone(daemon.link)


if __name__ == "__main__":
    unittest.main()
