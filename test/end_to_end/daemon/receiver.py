"""A receiver on this machine that does what it is told."""
import http.server
import json
import queue
import threading
import urllib.request


class Receiver:
    """Keeps what it gets; `answer(request)` gives the status, or the status and a text.

    `tls`: the context of HTTPS.
    """

    def __init__(self, answer=lambda request: 200, tls=None):
        self.requests = queue.Queue()
        self.answer = answer
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.send_response(204)
                self.end_headers()

            def do_POST(self):
                self.body = self.rfile.read(int(self.headers["Content-Length"] or 0))
                answer = receiver.answer(self)
                status, text = answer if isinstance(answer, tuple) else (answer, "")
                receiver.requests.put((status, self.path, dict(self.headers), self.body))
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            def process_request(self, *connection):
                with receiver.changed:
                    receiver.connections += 1
                super().process_request(*connection)

            def shutdown_request(self, connection):
                super().shutdown_request(connection)
                with receiver.changed:
                    receiver.connections -= 1
                    receiver.changed.notify_all()

        self.changed = threading.Condition()
        self.connections = 0
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # a client that was killed takes no answer
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
            self.url = f"https://localhost:{self.port}/"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def next(self, timeout=60):
        return self.requests.get(timeout=timeout)

    def wait_for_silence(self, timeout=60):
        """Until what clients that are gone have left behind is read."""
        # Connections are taken in the order in which they came: with this one, all of them.
        urllib.request.urlopen(self.url, timeout=timeout).close()
        with self.changed:
            if not self.changed.wait_for(lambda: self.connections == 0, timeout):
                raise AssertionError(f"{self.connections} connections stay open")

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def spans_in(body):
    document = json.loads(body)
    return [span for resource in document["resourceSpans"]
            for scope in resource["scopeSpans"] for span in scope["spans"]]
