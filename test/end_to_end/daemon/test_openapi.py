"""The description of the API against what the daemon really answers."""
import http.client
import io
import json
import unittest

from daemon import Answer, Daemon


def check(value, schema, document, path="$"):
    """As much of JSON Schema as the document uses."""
    if "$ref" in schema:
        return check(value, document["components"]["schemas"][schema["$ref"].split("/")[-1]],
                     document, path)
    if "anyOf" in schema:
        errors = []
        for one in schema["anyOf"]:
            try:
                return check(value, one, document, path)
            except AssertionError as error:
                errors.append(str(error))
        raise AssertionError(f"{path}: {errors}")
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    names = {"string": str, "integer": int, "number": (int, float), "boolean": bool,
             "array": list, "object": dict, "null": type(None)}
    if types:
        fits = any(isinstance(value, names[name]) and
                   (name == "boolean" or not isinstance(value, bool)) for name in types)
        assert fits, f"{path}: {value!r} is no {types}"
    if "enum" in schema:
        assert value in schema["enum"], f"{path}: {value!r} is none of {schema['enum']}"
    if isinstance(value, list):
        for number, item in enumerate(value):
            check(item, schema.get("items", {}), document, f"{path}[{number}]")
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        for name in schema.get("required", []):
            assert name in value, f"{path}: {name} is missing"
        for name, item in value.items():
            rest = schema.get("additionalProperties", {})
            assert name in properties or rest is not False, f"{path}: {name} is not described"
            check(item, properties.get(name, rest if isinstance(rest, dict) else {}), document,
                  f"{path}.{name}")


class OpenApi(unittest.TestCase):
    def test_every_answer_is_as_described(self):
        config = '[[event]]\nname = "seen"\n[[route]]\nname = "all"\nsink = "log"\n' \
                 '[sink.log]\ntype = "log"\n[webhook.own]\nscheme = "none"\n' \
                 '[webhook.meta]\nscheme = "hmac"\nheader = "X-S"\nsecrets = ["env:OWN"]\n' \
                 'handshake = "meta"\nverify_tokens = ["env:OWN"]\n' \
                 '[webhook.ce]\nscheme = "bearer"\nsecrets = ["env:OWN"]\n' \
                 'handshake = "cloudevents"\nallowed_origins = ["*"]\n' \
                 '[[subscription]]\nname = "b"\ntopic = "t"\nroute = "/sidecar/t"\n'
        event = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "seen.v1",
                 "Idempotency-Key": "1"}
        act = json.dumps({"filter": {"state": "dead"}, "reason": "r"})
        asks = [("GET", path, None) for path in
                ["/health", "/health/live", "/health/ready", "/metrics", "/openapi.json", "/v1/stores",
                 "/v1/messages", "/v1/dead_letter_groups", "/v1/dispatch", "/dapr/subscribe", "/v1/overview", "/v1/history",
                 "/v1/history?span=24h&box=inbox&store=main", "/v1/workers"]]
        asks += [("POST", "/v1/outbox/{topic}", b"x"), ("POST", "/v1/inbox/{source}/{topic}", b"x"),
                 ("POST", "/v1/inbox/{source}/{topic}", b"x"), ("POST", "/v1/events", b"x"),
                 ("POST", "/events/{name}/{version}", b"x"), ("POST", "/webhooks/{endpoint}", b"x"),
                 ("POST", "/sidecar/{route}", b"x"), ("GET", "/v1/messages/{id}", None),
                 ("POST", "/v1/messages/requeue", act), ("POST", "/v1/messages/discard", act),
                 ("POST", "/v1/dispatch/pause", "{}"), ("POST", "/v1/dispatch/resume", "{}"),
                 ("POST", "/v1/routes/{name}/disable", "{}"),
                 ("POST", "/v1/routes/{name}/enable", "{}"),
                 ("POST", "/v1/messages/postpone",
                  '{"filter":{"topic":"a"},"delay":"1h","operation_id":"p1"}'),
                 ("POST", "/v1/messages/edit", '{"number":1,"content_version":1}'),
                 ("POST", "/v1/messages/edit",
                  '{"number":1,"content_version":99,"payload":"y"}'),
                 ("POST", "/v1/messages/edit",
                  '{"number":1,"content_version":1,"payload":"y","requeue":true}'),
                 ("GET", "/v1/operations/{id}", None), ("GET", "/v1/operations/p1", None),
                 ("GET", "/v1/audit", None), ("GET", "/v1/audit?box=inbox&limit=1", None),
                 ("GET", "/webhooks/meta", None), ("OPTIONS", "/webhooks/ce", None),
                 ("GET", "/", None), ("GET", "/assets/{file}", None), ("GET", "/v1/me", None),
                 ("POST", "/v1/login", '{"token":""}'), ("POST", "/v1/login", None),
                 ("POST", "/v1/logout", None),
                 ("POST", "/v1/messages/requeue", "["), ("POST", "/v1/routes/none/enable", "")]
        names = {"{topic}": "a", "{source}": "s", "{version}": "v1", "{endpoint}": "own",
                 "{route}": "t", "{id}": "1", "{file}": "none.js", "/events/{name}": "/events/seen", "{name}": "all"}
        with Daemon(config, {"OWN": "0123456789abcdef"}) as daemon:
            daemon.wait_for_token()
            document = daemon.ask("GET", "/openapi.json").json()
            self.assertEqual(document["openapi"], "3.1.0")
            asked = set()
            for method, path, body in asks:
                target = path
                for name, value in names.items():
                    target = target.replace(name, value)
                if path == "/v1/login" and body is None:
                    body = json.dumps({"token": daemon.token})
                answer = daemon.operate(method, target, body,
                                        {**event, "Accept-Encoding": "gzip"})
                path = path.split("?")[0].replace("meta", "{endpoint}").replace("/ce", "/{endpoint}")
                if path not in document["paths"]:
                    path = "/v1/operations/{id}" if "operations" in path \
                        else "/v1/routes/{name}/enable"
                self.check_answer(document, method, path, answer)
                asked.add((method.lower(), path))
            with daemon.live() as live:
                answer = document["paths"]["/v1/overview/stream"]["get"]["responses"]["200"]["content"]
                self.assertEqual([live.response.headers["Content-Type"]], list(answer))
                check(next(live), document["components"]["schemas"]["Overview"], document)
                asked.add(("get", "/v1/overview/stream"))
            self.assertEqual(asked, {(method, path) for path, methods in document["paths"].items()
                                     for method in methods})
            self.assertEqual(daemon.stop(), 0)

    def check_answer(self, document, method, path, answer):
        responses = document["paths"][path][method.lower()]["responses"]
        about = (method, path, answer.status, answer.body)
        self.assertIn(str(answer.status), responses, about)
        described = responses[str(answer.status)]
        if "$ref" in described:
            described = document["components"]["responses"][described["$ref"].split("/")[-1]]
        for name in described.get("headers", {}):
            self.assertIn(name, answer.headers, about)
        if "content" not in described:
            self.assertEqual(answer.body, b"", about)
            return
        kind = answer.headers["Content-Type"].split(";")[0]
        self.assertIn(kind, described["content"], about)
        if "json" in kind:
            try:
                check(answer.json(), described["content"][kind]["schema"], document)
            except AssertionError as error:
                self.fail(f"{about}: {error}")

    def test_every_path_lists_what_each_request_may_be_answered(self):
        """What is wrong with the request as such, provoked on every path."""
        with Daemon('[limit]\nbody_bytes = 5000\n[webhook.own]\nscheme = "bearer"\n'
                    'secrets = ["env:OWN"]\nhandshake = "cloudevents"\nallowed_origins = ["*"]\n'
                    '[webhook.meta]\nscheme = "hmac"\nheader = "X-S"\nsecrets = ["env:OWN"]\n'
                    'handshake = "meta"\nverify_tokens = ["env:OWN"]\n[[subscription]]\nname = "b"\ntopic = "t"\n'
                    'route = "/sidecar/t"\n', environment={"OWN": "0123456789abcdef"}) as daemon:
            daemon.wait_for_token()
            document = daemon.ask("GET", "/openapi.json").json()
            for path, methods in document["paths"].items():
                for method in methods:
                    endpoint = "meta" if method == "get" else "own"
                    target = path.replace("{endpoint}", endpoint).replace("{route}", "t")
                    for status, asked, headers, body in [
                            (400, method, [("Host", "localhost"), ("Host", "localhost")], b""),
                            (403, method, [("Host", "localhost"), ("Origin", "http://evil.example")], b""),
                            (405, "BREW", [("Host", "localhost")], b""),
                            (413, method, [("Host", "localhost"), ("Content-Length", "5001"),
                                           ("Authorization", f"Bearer {daemon.token}")], b""),
                            (421, method, [("Host", "evil.example")], b""),
                            (431, method, [("Host", "localhost"), ("X", "x" * 20000)], b""),
                            (501, method, [("Host", "localhost"), ("Transfer-Encoding", "gzip")], b"")]:
                        head = "".join(f"{name}: {value}\r\n" for name, value in headers)
                        raw = daemon.raw(f"{asked.upper()} {target} HTTP/1.1\r\n{head}\r\n".encode())
                        answer = self.parse(raw)
                        self.assertEqual(answer.status, status, (asked, target, raw))
                        self.check_answer(document, method, path, answer)
            self.assertEqual(daemon.stop(), 0)

    def parse(self, raw):
        class Bytes:
            def makefile(self, _):
                return io.BytesIO(raw)

        response = http.client.HTTPResponse(Bytes())
        response.begin()
        return Answer(response)

    def test_every_path_lists_a_busy_daemon_and_a_failure(self):
        with Daemon() as daemon:
            for path, methods in daemon.ask("GET", "/openapi.json").json()["paths"].items():
                for method, described in methods.items():
                    for status in ["500", "503"]:
                        self.assertIn(status, described["responses"], (method, path))

    def test_headers_of_events_and_keys_are_listed(self):
        with Daemon() as daemon:
            paths = daemon.ask("GET", "/openapi.json").json()["paths"]

        def headers(path):
            return {one["name"] for one in paths[path]["post"]["parameters"] if one["in"] == "header"}

        attributes = {"ce-specversion", "ce-id", "ce-source", "ce-type", "ce-subject", "ce-time",
                      "ce-dataschema", "traceparent"}
        for path in ["/v1/events", "/events/{name}/{version}", "/sidecar/{route}"]:
            self.assertLessEqual(attributes, headers(path), path)
        for path in ["/v1/outbox/{topic}", "/v1/inbox/{source}/{topic}"]:
            self.assertLessEqual({"Idempotency-Key", "ce-id"}, headers(path), path)
        self.assertIn("Idempotency-Key", headers("/webhooks/{endpoint}"))

    def test_every_reference_leads_somewhere(self):
        def references(value):
            if isinstance(value, dict):
                for name, item in value.items():
                    if name == "$ref":
                        yield item
                    else:
                        yield from references(item)
            elif isinstance(value, list):
                for item in value:
                    yield from references(item)

        with Daemon() as daemon:
            document = daemon.ask("GET", "/openapi.json").json()
            for reference in references(document):
                self.assertTrue(reference.startswith("#/components/"), reference)
                kind, name = reference.split("/")[2:]
                self.assertIn(name, document["components"][kind])


if __name__ == "__main__":
    unittest.main()
