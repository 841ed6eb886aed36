"""A receiver that speaks HTTP/2 gets it, when it says so within TLS."""
import os
import shutil
import socket
import subprocess
import time
import unittest

from daemon import LIMIT, Daemon, certified_folder

SERVER = shutil.which("nghttpd", path=os.environ["PATH"] + ":/usr/sbin")


@unittest.skipUnless(SERVER, "no nghttpd is there")
class Http2(unittest.TestCase):
    def serve(self, folder):
        """nghttpd on a free port; what it prints is in a file."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        log = open(folder / "nghttpd.log", "wb")
        self.addCleanup(log.close)
        server = subprocess.Popen([SERVER, "-v", "--echo-upload", "-a", "127.0.0.1", str(port),
                                   "key.pem", "cert.pem"], cwd=folder, stdout=log, stderr=log)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        end = time.monotonic() + LIMIT
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return port
            except ConnectionRefusedError:
                self.assertIsNone(server.poll())
                self.assertLess(time.monotonic(), end)

    def test_a_delivery_over_http2(self):
        folder = certified_folder("twinbox_http2_")
        port = self.serve(folder)
        config = f"""
[sink.there]
type = "http"
url = "https://127.0.0.1:{port}/hook"
allow = ["127.0.0.1"]
ca_file = "cert.pem"
[[route]]
sink = "there"
"""
        with Daemon(config, folder=folder) as daemon:
            for number in range(3):
                self.assertEqual(daemon.ask("POST", "/v1/outbox/a", b"x" * 100_000,
                                            {"Idempotency-Key": f"m{number}"}).status, 202)
            for number in range(3):
                end = time.monotonic() + LIMIT
                while (found := daemon.ask("GET", f"/v1/messages/m{number}").json()["deliveries"][0]
                       )["state"] != "done":
                    self.assertEqual(found["last_error"], "")
                    self.assertLess(time.monotonic(), end)
            self.assertEqual(daemon.stop(), 0)
        frames = (folder / "nghttpd.log").read_text()
        self.assertEqual(frames.count(":path: /hook"), 3, frames)
        self.assertEqual(frames.count("idempotency-key: m"), 3)


if __name__ == "__main__":
    unittest.main()
