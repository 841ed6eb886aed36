"""HTTPS, and what a service manager is told."""
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import unittest

from daemon import (LIMIT, PROGRAM, Daemon, box_of, certified_folder, client_certificates,
                    new_folder)
from receiver import Receiver


class Tls(unittest.TestCase):
    def certified(self):
        """A folder with a certificate, and the configuration that uses it."""
        folder = certified_folder("twinbox_tls_")
        return folder, '[server]\ntls_certificate = "cert.pem"\ntls_key = "key.pem"\n'

    def test_a_cookie_stays_on_https_and_events_go_over_it(self):
        folder, config = self.certified()
        with Daemon(config, folder=folder) as daemon:
            daemon.wait_for_token()
            context = ssl.create_default_context(cafile=folder / "cert.pem")
            daemon.connect = lambda: http.client.HTTPSConnection(
                daemon.host, daemon.port, timeout=LIMIT, context=context)
            answer = daemon.ask("POST", "/v1/login", json.dumps({"token": daemon.token}))
            self.assertRegex(answer.headers["Set-Cookie"], "^__Host-twinbox=.*; Path=/; .*; Secure$")
            bearer = {"Authorization": f"Bearer {daemon.token}"}
            self.assertEqual(daemon.ask("POST", "/v1/outbox/a", b"x").status, 401)
            with daemon.live(bearer) as live:
                next(live)
                self.assertEqual(daemon.ask("POST", "/v1/outbox/a", b"x", bearer).status, 202)
                while box_of(next(live))["counts"]["ready"] != 1:
                    pass  # what was counted before
                self.assertEqual(daemon.stop(), 0)

    def test_with_a_certificate_there_is_https_and_nothing_else(self):
        folder, config = self.certified()
        with Daemon(config, folder=folder) as daemon:
            daemon.wait_for_token()
            context = ssl.create_default_context(cafile=folder / "cert.pem")
            connection = http.client.HTTPSConnection(daemon.host, daemon.port, timeout=LIMIT,
                                                     context=context)
            for _ in range(3):
                answer = daemon.ask("POST", "/v1/outbox/a", b"x" * 100_000,
                                    {"Authorization": f"Bearer {daemon.token}"}, connection)
                self.assertEqual(answer.status, 202)
            connection.close()
            self.assertEqual(daemon.raw(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
                             .count(b"HTTP/1.1 200"), 0)
            old = ssl.create_default_context(cafile=folder / "cert.pem")
            old.maximum_version = ssl.TLSVersion.TLSv1_1
            with self.assertRaises((ssl.SSLError, ConnectionError)):
                with socket.create_connection((daemon.host, daemon.port), LIMIT) as raw:
                    old.wrap_socket(raw, server_hostname="localhost").close()
            self.assertEqual(daemon.stop(), 0)

    def test_the_command_line_asks_by_https_where_the_configuration_says_so(self):
        folder, config = self.certified()
        with Daemon(config, folder=folder) as daemon:
            daemon.wait_for_token()
            done = subprocess.run(
                [os.path.abspath(PROGRAM), "pause", "--config", "twinbox.toml", "--ca-file", "cert.pem"],
                cwd=folder, capture_output=True, text=True, timeout=LIMIT,
                env={"TWINBOX_TOKEN": daemon.token,
                     "TWINBOX_SERVER_LISTEN": f"{daemon.host}:{daemon.port}"})
            self.assertEqual((done.returncode, done.stdout), (0, "paused\n"), done.stderr)
            self.assertEqual(daemon.stop(), 0)

    def connection(self, daemon, context):
        return http.client.HTTPSConnection(daemon.host, daemon.port, timeout=LIMIT, context=context)

    def trusting(self, certificate):
        return ssl.create_default_context(cafile=certificate)

    def test_sighup_reads_the_certificate_again(self):
        folder, config = self.certified()
        renewed = certified_folder("twinbox_tls_")
        with Daemon(config, folder=folder) as daemon:
            daemon.wait_for_token()
            first = self.trusting(folder / "cert.pem")
            open_one = self.connection(daemon, first)
            self.assertEqual(daemon.ask("GET", "/health/live", connection=open_one).status, 200)

            second = self.trusting(renewed / "cert.pem")
            for name in ["cert.pem", "key.pem"]:
                (folder / name).write_bytes((renewed / name).read_bytes())
            daemon.signal(signal.SIGHUP)
            daemon.wait_for("reloaded")
            self.assertEqual(daemon.ask("GET", "/health/live", connection=open_one).status, 200)
            open_one.close()
            self.assert_served(daemon, second)
            with self.assertRaises(ssl.SSLError):
                self.connection(daemon, first).connect()

            for name in ["cert.pem", "key.pem"]:
                good = (folder / name).read_bytes()
                (folder / name).write_text("nonsense")
                daemon.signal(signal.SIGHUP)
                self.assertIn(name, daemon.wait_for("reload_failed.*")[0])
                self.assert_served(daemon, second)
                (folder / name).write_bytes(good)
            other = certified_folder("twinbox_tls_")  # the key of another certificate
            (folder / "key.pem").write_bytes((other / "key.pem").read_bytes())
            daemon.signal(signal.SIGHUP)
            self.assertIn("private key key.pem", daemon.wait_for("reload_failed.*")[0])
            self.assert_served(daemon, second)
            self.assertEqual(daemon.stop(), 0)

    def assert_served(self, daemon, context):
        connection = self.connection(daemon, context)
        self.assertEqual(daemon.ask("GET", "/health/live", connection=connection).status, 200)
        connection.close()

    def test_a_client_shows_a_certificate_and_its_token_as_well(self):
        folder, config = self.certified()
        client_certificates(folder)
        with Daemon(config + 'client_ca = "ca.pem"\n', folder=folder) as daemon:
            daemon.wait_for_token()

            def status(certificate, headers):
                context = self.trusting(folder / "cert.pem")
                if certificate:
                    context.load_cert_chain(folder / f"{certificate}.pem", folder / f"{certificate}.key")
                connection = self.connection(daemon, context)
                try:
                    return daemon.ask("POST", "/v1/outbox/a", b"x", headers, connection).status
                finally:
                    connection.close()

            bearer = {"Authorization": f"Bearer {daemon.token}"}
            for certificate in [None, "stranger"]:
                with self.assertRaises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
                    status(certificate, bearer)
            self.assertEqual(status("client", {}), 401)
            self.assertEqual(status("client", bearer), 202)
            def pause(*args):
                return subprocess.run(
                    [os.path.abspath(PROGRAM), "pause", "--config", "twinbox.toml", "--ca-file",
                     "cert.pem", *args], cwd=folder, capture_output=True, text=True, timeout=LIMIT,
                    env={"TWINBOX_TOKEN": daemon.token,
                         "TWINBOX_SERVER_LISTEN": f"{daemon.host}:{daemon.port}"})

            self.assertNotEqual(pause().returncode, 0)
            done = pause("--certificate-file", "client.pem", "--key-file", "client.key")
            self.assertEqual((done.returncode, done.stdout), (0, "paused\n"), done.stderr)

            (folder / "ca.pem").write_bytes((folder / "stranger.pem").read_bytes())
            daemon.signal(signal.SIGHUP)
            daemon.wait_for("reloaded")
            with self.assertRaises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
                status("client", bearer)
            self.assertEqual(status("stranger", bearer), 202)
            (folder / "ca.pem").write_text("nonsense")
            daemon.signal(signal.SIGHUP)
            self.assertIn("client CA ca.pem", daemon.wait_for("reload_failed.*")[0])
            self.assertEqual(status("stranger", bearer), 202)
            self.assertEqual(daemon.stop(), 0)

    def test_a_sink_shows_its_certificate(self):
        folder, _ = self.certified()
        client_certificates(folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        context.load_verify_locations(folder / "ca.pem")
        context.verify_mode = ssl.CERT_REQUIRED
        with Receiver(tls=context) as receiver:
            config = (f'[sink.out]\ntype = "http"\nurl = "{receiver.url}"\nallow = ["127.0.0.1", "::1"]\n'
                      'ca_file = "cert.pem"\ncertificate_file = "client.pem"\n'
                      'key_file = "client.key"\n[[route]]\nname = "all"\nsink = "out"\n')
            with Daemon(config, folder=folder) as daemon:
                self.assertEqual(daemon.ask("POST", "/v1/outbox/a", b"x").status, 202)
                self.assertEqual(receiver.next()[3], b"x")
                self.assertEqual(daemon.stop(), 0)

    def test_sighup_reads_the_certificate_of_a_sink_again(self):
        folder, _ = self.certified()
        client_certificates(folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        context.load_verify_locations(folder / "ca.pem")
        context.verify_mode = ssl.CERT_REQUIRED
        good = {name: (folder / f"client.{name}").read_bytes() for name in ["pem", "key"]}
        for name in good:
            (folder / f"client.{name}").write_bytes((folder / f"stranger.{name}").read_bytes())
        with Receiver(tls=context) as receiver:
            config = (f'[sink.out]\ntype = "http"\nurl = "{receiver.url}"\nallow = ["127.0.0.1", "::1"]\n'
                      'ca_file = "cert.pem"\ncertificate_file = "client.pem"\n'
                      'key_file = "client.key"\n[[route]]\nname = "all"\nsink = "out"\n'
                      'retry = "quick"\n[retry.quick]\nfirst_delay = "10ms"\nmax_delay = "10ms"\n'
                      'max_attempts = 10000\n[dispatch]\npoll_interval = "20ms"\n')
            with Daemon(config, folder=folder) as daemon:
                self.assertEqual(daemon.ask("POST", "/v1/outbox/a", b"x").status, 202)
                daemon.wait_for(" handler_retry ")
                for name, content in good.items():
                    (folder / f"client.{name}").write_bytes(content)
                daemon.signal(signal.SIGHUP)
                self.assertEqual(receiver.next()[3], b"x")
                self.assertEqual(daemon.stop(), 0)

    def test_a_certificate_that_is_none_is_named(self):
        folder = pathlib.Path(new_folder("twinbox_tls_"))
        (folder / "twinbox.toml").write_text(
            '[server]\nlisten = "127.0.0.1:0"\ntls_certificate = "none.pem"\ntls_key = "k.pem"\n')
        ended = subprocess.run([os.path.abspath(PROGRAM), "serve", "--config", "twinbox.toml"],
                               cwd=folder, capture_output=True, text=True, timeout=LIMIT)
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("twinbox.toml:3: server.tls_certificate: certificate none.pem", ended.stderr)
        self.assertIn("twinbox.toml:4: server.tls_key: private key k.pem", ended.stderr)


class Warnings(unittest.TestCase):
    def test_a_token_file_that_everybody_may_read_is_told_at_the_start_and_by_a_reload(self):
        folder = pathlib.Path(new_folder("twinbox_warning_"))
        tokens = folder / "twinbox.tokens"
        tokens.write_text(f"ci send {'a' * 64}\n")
        tokens.chmod(0o644)
        told = r" config_warning .*key=access\.token_file .*every user may read the file"
        with Daemon(folder=folder) as daemon:
            self.assertTrue([line for line in daemon.lines if re.search(told, line)], daemon.lines)
            daemon.signal(signal.SIGHUP)
            daemon.wait_for(told)
            tokens.chmod(0o600)
            daemon.signal(signal.SIGHUP)
            for _ in range(2):
                daemon.wait_for(" reloaded")
            self.assertEqual(daemon.stop(), 0)
            self.assertEqual(len([line for line in daemon.lines if re.search(told, line)]), 2)
            self.assertEqual(len([line for line in daemon.lines if "config_warning" in line]), 2)


class Manager(unittest.TestCase):
    def test_readiness_reload_and_stop_are_told(self):
        folder = new_folder("twinbox_notify_")
        place = f"{folder}/notify"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(place)
            manager.settimeout(LIMIT)
            with Daemon(environment={"NOTIFY_SOCKET": place}, folder=folder) as daemon:
                self.assertEqual(manager.recv(4096), b"READY=1")
                daemon.signal(signal.SIGHUP)
                self.assertTrue(manager.recv(4096).startswith(b"RELOADING=1\nMONOTONIC_USEC="))
                self.assertEqual(manager.recv(4096), b"READY=1")
                self.assertEqual(daemon.stop(), 0)
                self.assertEqual(manager.recv(4096), b"STOPPING=1")


class Mistakes(unittest.TestCase):
    def fails(self, config, words, environment=None):
        folder = pathlib.Path(new_folder("twinbox_mistake_"))
        (folder / "twinbox.toml").write_text(config)
        ended = subprocess.run([os.path.abspath(PROGRAM), "serve", "--config", "twinbox.toml"],
                               cwd=folder, capture_output=True, text=True, timeout=LIMIT,
                               env={**os.environ, **(environment or {})})
        self.assertEqual(ended.returncode, 2, ended.stderr)
        for word in words:
            self.assertIn(word, ended.stderr)

    def test_each_gives_file_line_key_and_what_was_expected(self):
        self.fails("[server]\nlisten = 1\nio_thrads = 2\n",
                   ["twinbox.toml:2: server.listen: expected a string",
                    'twinbox.toml:3: server.io_thrads: unknown key; did you mean "io_threads"?'])
        self.fails("[[route]]\ntopic = \"a.*b\"\nsink = \"x\"\n", ["twinbox.toml:2: route."])
        self.fails("", ["TWINBOX_LOG_LEVEL", "expected one of"], {"TWINBOX_LOG_LEVEL": "loud"})


if __name__ == "__main__":
    unittest.main()
