#!/usr/bin/env python3
"""A receiver to try Twinbox with: prints what is delivered to it and answers 204.

usage: example/receiver.py [port]     (default: 8080)
"""
import http.server
import sys


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        about = f"{self.headers['twinbox-topic']} {self.headers['twinbox-id']}"
        print(f"{about}: {body.decode()}", flush=True)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


port = int(sys.argv[1]) if len(sys.argv) > 1 else 8080
with http.server.HTTPServer(("127.0.0.1", port), Receiver) as server:
    print(f"listening on http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()
