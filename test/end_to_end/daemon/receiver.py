"""A receiver on this machine that does what it is told."""
import http.server
import json
import queue
import threading


class Receiver:
    """Keeps what it gets; `answer(request)` says the status."""

    def __init__(self, answer=lambda request: 200):
        self.requests = queue.Queue()
        self.answer = answer
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                self.body = self.rfile.read(int(self.headers["Content-Length"] or 0))
                status = receiver.answer(self)
                receiver.requests.put((status, self.path, dict(self.headers), self.body))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # a client that was killed takes no answer
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def next(self, timeout=60):
        return self.requests.get(timeout=timeout)

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
