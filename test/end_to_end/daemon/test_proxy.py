"""Behind nginx: as docs/reference/daemon.md sets it up, and as people set it up who forget the headers."""
import http.client
import json
import os
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import time
import unittest

from daemon import LIMIT, Daemon, certified_folder, new_folder

NGINX = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "reference" / "daemon.md"

UNSIGNED = '[webhook.anybody]\nscheme = "none"\n'

FRAME = """daemon off;
pid nginx.pid;
error_log stderr;
events {{}}
http {{
  access_log off;
  client_body_temp_path temp; proxy_temp_path temp; fastcgi_temp_path temp;
  uwsgi_temp_path temp; scgi_temp_path temp;
{server}
}}
"""


class Proxy(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        assert NGINX, "nginx is missing; ./dev setup installs it"

    def serve(self, folder, server):
        """nginx with this server block, in the foreground; ended by its id."""
        (folder / "nginx.conf").write_text(FRAME.format(server=server))
        log = open(folder / "nginx.log", "wb")
        self.addCleanup(log.close)
        process = subprocess.Popen([NGINX, "-p", str(folder), "-c", "nginx.conf"], stdout=log,
                                   stderr=log)
        self.addCleanup(process.wait, LIMIT)
        self.addCleanup(process.terminate)
        port = int(re.search(r"listen 127\.0\.0\.1:(\d+)", server)[1])
        end = time.monotonic() + LIMIT
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return port
            except ConnectionRefusedError:
                self.assertIsNone(process.poll(), (folder / "nginx.log").read_text())
                self.assertLess(time.monotonic(), end)

    @staticmethod
    def free_port():
        with socket.create_server(("127.0.0.1", 0)) as free:
            return free.getsockname()[1]

    def ask(self, connection, *request):
        connection.request(*request)
        response = connection.getresponse()
        return response, response.read()

    def test_the_documented_configuration(self):
        folder = certified_folder("twinbox_nginx_")
        block = re.search(r"```nginx\n(.*?)```", PAGE.read_text(), re.S)[1]
        with Daemon('[server]\nhosts = ["box.example"]\n', folder=folder, local=False) as daemon:
            daemon.wait_for_token()
            for documented, here in [("listen 443 ssl", f"listen 127.0.0.1:{self.free_port()} ssl"),
                                     ("/etc/ssl/box.pem", f"{folder}/cert.pem"),
                                     ("/etc/ssl/box.key", f"{folder}/key.pem"),
                                     ("127.0.0.1:7117", f"127.0.0.1:{daemon.port}")]:
                self.assertIn(documented, block)
                block = block.replace(documented, here)
            port = self.serve(folder, block)
            context = ssl.create_default_context(cafile=folder / "cert.pem")
            context.check_hostname = False  # the certificate is for localhost
            connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=LIMIT, context=context)
            self.addCleanup(connection.close)
            named = {"Host": "box.example"}
            bearer = {**named, "Authorization": f"Bearer {daemon.token}"}
            for method, target in [("POST", "/v1/outbox/a"), ("GET", "/v1/messages"),
                                   ("GET", "/metrics")]:
                response, _ = self.ask(connection, method, target, b"", named)
                self.assertEqual(response.status, 401, target)
            response, body = self.ask(connection, "POST", "/v1/outbox/a", b"x", bearer)
            self.assertEqual(response.status, 202, body)
            page = {**named, "Origin": "https://box.example"}
            response, body = self.ask(connection, "POST", "/v1/login",
                                      json.dumps({"token": daemon.token}), page)
            self.assertEqual(response.status, 200, body)
            self.assertIn("; Secure", response.headers["Set-Cookie"])
            page["Cookie"] = response.headers["Set-Cookie"].split(";")[0]
            response, body = self.ask(connection, "POST", "/v1/dispatch/pause", b"", page)
            self.assertEqual(response.status, 200, body)
            connection.request("GET", "/v1/overview/stream", headers=bearer)
            events = connection.getresponse()
            self.assertEqual(events.readline(), b"event: overview\n")
            connection.close()
            self.assertEqual(daemon.stop(), 0)

    def pass_to(self, daemon, *directives):
        """A connection through an nginx that adds no header of its own."""
        folder = pathlib.Path(new_folder("twinbox_nginx_"))
        port = self.serve(folder, f"server {{ listen 127.0.0.1:{self.free_port()}; location / "
                                  f"{{ proxy_pass http://127.0.0.1:{daemon.port}; "
                                  f"{' '.join(directives)} }} }}")
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)
        self.addCleanup(connection.close)
        return connection

    def refuses_strangers(self, connection):
        for method, target in [("POST", "/v1/outbox/a"), ("GET", "/v1/messages"),
                               ("POST", "/webhooks/anybody")]:
            response, body = self.ask(connection, method, target, b"x", {"Idempotency-Key": "w"})
            self.assertEqual(response.status, 401, (target, body))
        self.assertEqual(self.ask(connection, "GET", "/health/live")[0].status, 200)

    def test_a_bare_proxy_pass_makes_nobody_local(self):
        keep_alive = 'proxy_http_version 1.1; proxy_set_header Connection "";'
        with Daemon(UNSIGNED, local=False) as daemon:
            for directives in [[], [keep_alive], [keep_alive, "proxy_set_header Host localhost;"]]:
                with self.subTest(directives):
                    self.refuses_strangers(self.pass_to(daemon, *directives))
            self.assertEqual(daemon.stop(), 0)

    def test_where_local_programs_need_no_token_http_1_0_is_not_local(self):
        with Daemon(UNSIGNED) as daemon:
            self.assertEqual(daemon.ask("POST", "/v1/outbox/a", b"x").status, 202)
            self.refuses_strangers(self.pass_to(daemon, "proxy_http_version 1.0;"))
            self.assertEqual(daemon.stop(), 0)


if __name__ == "__main__":
    unittest.main()
