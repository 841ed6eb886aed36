"""Verbs that talk to the daemon, and verbs beside it on the same store."""
import os
import subprocess
import unittest

from daemon import LIMIT, PROGRAM, Daemon


def twinbox(daemon, *args, token=None):
    """Runs a verb in the daemon's folder: exit code, standard output, standard error."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TWINBOX_")}
    if token:
        environment["TWINBOX_TOKEN"] = token
    done = subprocess.run([os.path.abspath(PROGRAM), *args], cwd=daemon.folder, env=environment, text=True,
                          capture_output=True, timeout=LIMIT, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


def token_of(daemon):
    """The token of the first start, which may be printed after the daemon listens."""
    return daemon.token or daemon.wait_for(r"^  (twb_\S+)")[1]


class CommandLine(unittest.TestCase):
    def server(self, daemon):
        return ("--server", f"http://{daemon.host}:{daemon.port}")

    def test_pause_and_resume_reach_the_daemon(self):
        with Daemon() as daemon:
            token = token_of(daemon)
            self.assertEqual(twinbox(daemon, "pause", *self.server(daemon), token=token), (0, "paused\n", ""))
            self.assertTrue(daemon.ask("GET", "/v1/dispatch").json()["paused"])
            self.assertEqual(twinbox(daemon, "resume", *self.server(daemon), token=token), (0, "resumed\n", ""))
            self.assertFalse(daemon.ask("GET", "/v1/dispatch").json()["paused"])
            (daemon.folder / "token").write_text(token + "\n")
            code, out, _ = twinbox(daemon, "pause", "--topic", "order.placed", "--token-file", "token",
                                   *self.server(daemon))
            self.assertEqual((code, out), (0, "paused topic order.placed\n"))
            self.assertEqual(daemon.ask("GET", "/v1/dispatch").json()["paused_topics"], ["order.placed"])
            self.assertEqual(twinbox(daemon, "resume", *self.server(daemon), token=token),
                             (0, "resumed\n", "still paused: topic order.placed\n"))
            self.assertEqual(twinbox(daemon, "resume", "--topic", "order.placed", *self.server(daemon), token=token),
                             (0, "resumed topic order.placed\n", ""))

    def test_without_a_token_it_is_refused_with_the_way_out(self):
        with Daemon() as daemon:
            for token in (None, "wrong"):
                code, out, error = twinbox(daemon, "pause", *self.server(daemon), token=token)
                self.assertEqual((code, out), (6, ""))
                self.assertIn("TWINBOX_TOKEN or --token-file", error)
            self.assertFalse(daemon.ask("GET", "/v1/dispatch").json()["paused"])

    def test_a_verb_sees_what_the_daemon_took_in(self):
        with Daemon() as daemon:
            answer = daemon.ask("POST", "/v1/inbox/shop/order.placed", "x", {"Idempotency-Key": "order-1"})
            self.assertEqual(answer.status, 202)
            code, out, _ = twinbox(daemon, "show", "order-1", "--inbox", "--config", "twinbox.toml")
            self.assertEqual(code, 0)
            self.assertIn("order.placed", out)


if __name__ == "__main__":
    unittest.main()
