"""Starts the real program, talks to it, and stops it."""
import atexit
import contextlib
import http.client
import json
import os
import pathlib
import queue
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from urllib.parse import quote

PROGRAM = os.environ.get("TWINBOX_PROGRAM", "build/bin/twinbox")
LIMIT = 60  # seconds; only a failure waits so long


def new_folder(prefix):
    """Removed at the end of the run."""
    folder = tempfile.mkdtemp(prefix=prefix)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def certified_folder(prefix):
    """With key.pem and cert.pem for this machine."""
    folder = pathlib.Path(new_folder(prefix))
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-keyout", folder / "key.pem", "-out", folder / "cert.pem", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
        check=True, capture_output=True)
    return folder


def client_certificates(folder):
    """In a folder: ca.pem, client.pem and client.key by it, and stranger.pem and stranger.key."""
    def run(*args):
        subprocess.run(["openssl", *args], check=True, capture_output=True, cwd=folder)

    new = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    run(*new, "-x509", "-days", "2", "-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca.pem")
    run(*new, "-x509", "-days", "2", "-subj", "/CN=stranger", "-keyout", "stranger.key",
        "-out", "stranger.pem")
    run(*new, "-subj", "/CN=client", "-keyout", "client.key", "-out", "client.csr")
    run("x509", "-req", "-in", "client.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
        "-CAcreateserial", "-days", "2", "-out", "client.pem")


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    def json(self):
        return json.loads(self.body)


class Live:
    """The overviews of /v1/overview/stream, as they come; fails when none comes any more."""

    def __init__(self, response):
        self.response = response
        self.end = time.monotonic() + LIMIT

    def __iter__(self):
        return self

    def __next__(self):
        event = None
        while time.monotonic() < self.end:
            line = self.response.readline().decode()
            if not line:
                raise StopIteration
            if line.startswith("event: "):
                event = line[7:].strip()
            elif line.startswith("data: "):
                assert event == "overview", event
                return json.loads(line[6:])
        raise AssertionError("nothing comes that was waited for")


def box_of(overview, name="outbox"):
    return next(box for box in overview["boxes"] if box["box"] == name)


class Daemon:
    """`twinbox serve` on a free port, in a folder of its own.

    Unless `local` is false, this machine may send and read without a token.
    """

    def __init__(self, config="", environment=None, folder=None, args=(), process=None, local=True):
        self.options = process or {}  # of Popen
        self.folder = pathlib.Path(folder or new_folder("twinbox_daemon_"))
        self.args = list(args)
        self.environment = {"TWINBOX_SERVER_LISTEN": "127.0.0.1:0", **(environment or {})}
        if local:
            self.environment["TWINBOX_ACCESS_LOOPBACK_WITHOUT_TOKEN"] = "true"
        self.configure(config)
        self.lines = []
        self.token = None
        self.link = None
        self.has_token = threading.Event()
        self.broken = None

    def configure(self, config):
        (self.folder / "twinbox.toml").write_text(config)

    def start(self):
        self.launch()
        found = self.wait_for(r"listening .*address=(\S+)")
        self.host, port = found[1].rsplit(":", 1)
        self.port = int(port)
        return self

    def launch(self):
        """Does not wait until it listens."""
        environment = {key: value for key, value in os.environ.items()
                       if not key.startswith("TWINBOX_")}
        environment.update(self.environment)
        self.process = subprocess.Popen(
            [os.path.abspath(PROGRAM), "serve", "--config", "twinbox.toml", *self.args],
            cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **self.options)
        self.events = queue.Queue()
        self.readers = [threading.Thread(target=self._read, args=(stream,), daemon=True)
                        for stream in (self.process.stderr, self.process.stdout)]
        self.open_streams = len(self.readers)
        for reader in self.readers:
            reader.start()

    def _read(self, stream):
        for data in stream:
            try:
                line = data.decode()
            except UnicodeDecodeError:
                self.broken = data
                line = repr(data)
            self.lines.append(line.rstrip("\n"))
            token = re.search(r"^  (twb_\S+)", line)
            if token:
                self.token = token[1]
                self.has_token.set()
            link = re.search(r"^  (https?://\S+/#token=\S+)", line)
            if link:
                self.link = link[1]
            self.events.put(line.rstrip("\n"))
        self.events.put(None)

    def wait_for_token(self):
        """It comes on another stream than the log, sooner or later than the lines there."""
        if not self.has_token.wait(LIMIT):
            raise AssertionError("no token was printed")

    def wait_for(self, pattern):
        """The next line of the log that matches; fails when the program ends first."""
        seen = []
        end = time.monotonic() + LIMIT
        while True:
            late = False
            try:
                line = self.events.get(timeout=max(0, end - time.monotonic()))
            except queue.Empty:
                line, late = None, True
            if line is None:
                if not late:
                    self.open_streams -= 1  # the other stream may still have lines
                    if self.open_streams > 0:
                        continue
                raise AssertionError(f"no line like {pattern}; there were:\n" + "\n".join(seen))
            seen.append(line)
            found = re.search(pattern, line)
            if found:
                return found

    def connect(self):
        return http.client.HTTPConnection(self.host, self.port, timeout=LIMIT)

    def ask(self, method, target, body=None, headers=None, connection=None):
        """One request; on a connection of its own unless one is given."""
        own = connection or self.connect()
        own.request(method, target, body, headers or {})
        answer = Answer(own.getresponse())
        if connection is None:
            own.close()
        return answer

    @contextlib.contextmanager
    def live(self, headers=None):
        connection = self.connect()
        try:
            connection.request("GET", "/v1/overview/stream", headers=headers or {})
            response = connection.getresponse()
            assert response.status == 200, response.read()
            yield Live(response)
            response.close()
        finally:
            connection.close()

    def wait_until(self, fits):
        """The first overview that does."""
        with self.live() as live:
            for overview in live:
                if fits(overview):
                    return overview
        raise AssertionError("the daemon ended before")

    def wait_until_ready(self):
        """Until the first test write of each store has ended."""
        end = time.monotonic() + LIMIT
        while (answer := self.ask("GET", "/health/ready")).status != 200:
            if time.monotonic() > end:
                raise AssertionError(answer.body)

    def wait_for_count(self, state, count, box="outbox"):
        return self.wait_until(lambda overview: box_of(overview, box)["counts"][state] == count)

    def operate(self, method, target, body=None, headers=None):
        """With the token of the first start; waits for what a busy machine has not done at once."""
        headers = {"Authorization": f"Bearer {self.token}", **(headers or {})}
        answer = self.ask(method, target, body, headers)
        if answer.status != 202 or "operation_id" not in answer.json():
            return answer
        asked = json.loads(body) | {"operation_id": answer.json()["operation_id"]}
        place = "&".join(f"{key}={asked[key]}" for key in ["store", "box"] if key in asked)
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            shown = self.ask("GET", f"/v1/operations/{quote(asked['operation_id'], safe='')}?{place}",
                             headers=headers)
            if shown.status == 200 and shown.json()["finished"]:
                return self.ask(method, target, json.dumps(asked), headers)
        raise AssertionError(f"never finished: {shown.body}")

    def raw(self, data):
        """What comes back for these bytes, until the other side closes."""
        with socket.create_connection((self.host, self.port), timeout=LIMIT) as connection:
            with contextlib.suppress(OSError):  # it may have had enough before that
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
            parts = []
            with contextlib.suppress(ConnectionResetError):
                while part := connection.recv(65536):
                    parts.append(part)
            return b"".join(parts)

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait(LIMIT)

    def stop(self):
        """SIGTERM; the exit code."""
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        code = self.process.wait(LIMIT)
        for reader in self.readers:
            reader.join(LIMIT)
        if self.broken:
            raise AssertionError(f"a log is text: {self.broken}")
        self.process.stdout.close()
        self.process.stderr.close()
        return code

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()
        self.stop()
