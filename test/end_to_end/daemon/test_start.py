"""Start, a message in, stop."""
import pathlib
import signal
import sqlite3
import unittest

from daemon import Daemon

PACKAGED = pathlib.Path(__file__).parents[3] / "packaging" / "twinbox.toml"


class Start(unittest.TestCase):
    def test_a_message_goes_in_and_is_there_after_the_stop(self):
        with Daemon() as daemon:
            self.assertEqual(daemon.ask("GET", "/health/live").status, 200)
            answer = daemon.ask("POST", "/v1/outbox/order.placed", b'{"order":1}',
                                {"Content-Type": "application/json"})
            self.assertEqual(answer.status, 202, answer.body)
            self.assertEqual(daemon.stop(), 0)
            database = sqlite3.connect(daemon.folder / "twinbox.db")
            rows = database.execute("select id, topic, payload from outbox_message").fetchall()
            self.assertEqual(rows, [(answer.json()["id"], "order.placed", b'{"order":1}')])

    def test_the_first_token_is_printed_once_and_only_its_hash_is_kept(self):
        daemon = Daemon()
        with daemon:
            daemon.wait_for_token()
            self.assertEqual(daemon.stop(), 0)
        stored = (daemon.folder / "twinbox.tokens").read_text()
        self.assertTrue(stored.startswith("first admin "))
        self.assertNotIn(daemon.token, stored)
        self.assertEqual((daemon.folder / "twinbox.tokens").stat().st_mode & 0o077, 0)
        again = Daemon(folder=daemon.folder)
        with again:
            self.assertEqual(again.stop(), 0)
        self.assertIsNone(again.token)

    def test_a_token_with_the_name_of_callers_without_one_is_refused(self):
        digits = "0" * 64
        for name in ["-", "-ci", "a/b", "a" * 65]:
            daemon = Daemon()
            (daemon.folder / "twinbox.tokens").write_text(f"# by hand\nci send {digits}\n{name} send {digits}\n")
            daemon.launch()
            daemon.wait_for(rf'twinbox.tokens:3: the name "{name[:64]}" is not a valid token name; .* 1 to 64 letters, digits and . _ - @')
            self.assertNotEqual(daemon.stop(), 0)

    def test_a_token_file_that_is_gone_takes_no_token_back(self):
        with Daemon() as daemon:
            daemon.wait_for_token()
            file = daemon.folder / "twinbox.tokens"
            kept = file.read_text()
            file.unlink()
            daemon.signal(signal.SIGHUP)
            self.assertIn("the token file twinbox.tokens is missing", daemon.wait_for(r"reload_failed (.*)")[1])
            bearer = {"Authorization": f"Bearer {daemon.token}"}
            self.assertEqual(daemon.ask("POST", "/v1/dispatch/pause", b"", bearer).status, 200)
            file.write_text(kept.replace("first admin", "first read"))
            daemon.signal(signal.SIGHUP)
            daemon.wait_for(" reloaded")
            self.assertEqual(daemon.ask("POST", "/v1/dispatch/pause", b"", bearer).status, 403)
            file.write_text("# nobody\n")
            daemon.signal(signal.SIGHUP)
            daemon.wait_for(" reloaded")
            self.assertEqual(daemon.ask("POST", "/v1/dispatch/pause", b"", bearer).status, 401)

    def test_the_packaged_configuration_lets_nobody_in_without_a_token(self):
        with Daemon(PACKAGED.read_text(), local=False) as daemon:
            daemon.wait_for_token()
            self.assertEqual(daemon.ask("POST", "/v1/outbox/order.placed", b"1").status, 401)
            self.assertEqual(daemon.operate("POST", "/v1/outbox/order.placed", b"1").status, 202)
            self.assertEqual(daemon.stop(), 0)


if __name__ == "__main__":
    unittest.main()
