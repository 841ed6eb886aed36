"""The file of a store is taken away from a daemon that runs."""
import os
import unittest

from daemon import Daemon


class StoreFile(unittest.TestCase):
    def refuses(self, daemon):
        answer = daemon.ask("POST", "/v1/outbox/order.placed", b"x")
        self.assertGreaterEqual(answer.status, 500, answer.body)
        self.assertEqual(daemon.ask("GET", "/health/ready").status, 503)

    def test_that_is_gone_is_not_ready_and_takes_nothing(self):
        with Daemon() as daemon:
            self.assertEqual(daemon.ask("POST", "/v1/outbox/order.placed", b"x").status, 202)
            store = daemon.folder / "twinbox.db"
            away = daemon.folder / "away.db"
            os.rename(store, away)
            self.refuses(daemon)
            self.assertFalse(store.exists())
            store.touch()
            self.refuses(daemon)
            store.unlink()
            os.rename(away, store)
            self.assertEqual(daemon.ask("POST", "/v1/outbox/order.placed", b"x").status, 202)


class Process(unittest.TestCase):
    def test_environment_cannot_be_read_by_other_programs_of_its_user(self):
        options = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        daemon = Daemon(process=options)
        os.chmod(daemon.folder, 0o777)
        with daemon:
            self.assertEqual(os.stat(f"/proc/{daemon.process.pid}/environ").st_uid, 0)


if __name__ == "__main__":
    unittest.main()
