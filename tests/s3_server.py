"""A real S3 server on 127.0.0.1, moto's, that tells which requests it saw and can be told to misbehave.

It runs in a process of its own: threads in that of the tests would keep other tests from starting workers.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import quote

BUCKET = "bucket"
KEYS = {
    "AWS_ACCESS_KEY_ID": "AKIATESTTESTTEST",
    "AWS_SECRET_ACCESS_KEY": "a-secret-of-the-tests",
    "AWS_REGION": "us-east-1",
}


class S3Server:
    """The server, as a test sees it."""

    def __init__(self, port: int) -> None:
        self.port = port

    @property
    def environment(self) -> dict[str, str]:
        """What a program needs to know to use it."""
        return {**KEYS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}"}

    def put(self, key: str, content: bytes) -> str:
        """Store an object; return its address."""
        self._ask("PUT", f"/{BUCKET}/{quote(key)}", content)
        return f"s3://{BUCKET}/{key}"

    def requests(self) -> list[tuple[str, str, str]]:
        """Return method, path and range of the requests since this was last asked."""
        return [tuple(one) for one in json.loads(self._ask("GET", "/_requests"))]

    def replace_after(self, gets: int, key: str, content: bytes) -> None:
        """Replace an object when it was asked for so often."""
        plan = {"gets": gets, "path": f"/{BUCKET}/{quote(key)}", "content": base64.b64encode(content).decode()}
        self._ask("PUT", "/_plan", json.dumps(plan).encode())

    def stall(self, seconds: float) -> None:
        """Let every answer wait."""
        self._ask("PUT", "/_plan", json.dumps({"stall": seconds}).encode())

    def refuse(self, status: str, code: str) -> None:
        """Refuse everything, as S3 says it."""
        answer = f"<Error><Code>{code}</Code><Message>the key is AKIATESTTESTTEST</Message></Error>"
        self._ask("PUT", "/_plan", json.dumps({"status": status, "answer": answer}).encode())

    def reset(self) -> None:
        """Forget all objects and plans."""
        self._ask("PUT", "/_plan", b"{}")
        self._ask("POST", "/moto-api/reset", b"")
        self._ask("PUT", f"/{BUCKET}", b"")
        self.requests()

    def _ask(self, method: str, path: str, content: bytes | None = None) -> bytes:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            signed = "AWS4-HMAC-SHA256 Credential=AKIATESTTESTTEST/20260101/us-east-1/s3/aws4_request"
            connection.request(method, path, content, {"Authorization": signed})
            answer = connection.getresponse()
            body = answer.read()
            assert answer.status == 200, (answer.status, body)
            return body


@contextlib.contextmanager
def running() -> Iterator[S3Server]:
    """Start the server; it ends with the block."""
    with subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE, stdin=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield S3Server(int(process.stdout.readline()))
        finally:
            process.kill()


Start = Callable[..., Any]


class _Watched:
    """Moto's application, with what was asked of it written down, and what a test wants to go wrong."""

    def __init__(self, app: Callable[[dict[str, Any], Start], Iterable[bytes]]) -> None:
        self._app = app
        self._seen: list[tuple[str, str, str]] = []
        self._plan: dict[str, Any] = {}
        self._gets = 0

    def __call__(self, environment: dict[str, Any], start: Start) -> Iterable[bytes]:
        method, path = environment["REQUEST_METHOD"], environment.get("RAW_URI") or environment["PATH_INFO"]
        if path in ("/_requests", "/_plan"):
            answer = json.dumps(self._seen).encode()
            if path == "/_plan":
                self._plan = json.loads(environment["wsgi.input"].read(int(environment["CONTENT_LENGTH"])))
                self._gets = 0
            self._seen = []
            start("200 OK", [("Content-Length", str(len(answer)))])
            return [answer]
        self._seen.append((method, path, environment.get("HTTP_RANGE", "")))
        if method in ("GET", "HEAD"):
            time.sleep(self._plan.get("stall", 0))
        if "status" in self._plan:
            start(self._plan["status"], [("Content-Type", "application/xml")])
            return [self._plan["answer"].encode()]
        answered = list(self._app(environment, start))
        if method == "GET" and path == self._plan.get("path"):
            self._gets += 1
            if self._gets == self._plan["gets"]:
                self._replace()
        return answered

    def _replace(self) -> None:
        from moto.s3.models import s3_backends

        bucket, _, key = self._plan["path"].lstrip("/").partition("/")
        (backend,) = (one["aws"] for one in s3_backends.values())
        backend.put_object(bucket, key, base64.b64decode(self._plan["content"]))


def _serve() -> None:
    import logging

    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, _Watched(DomainDispatcherApplication(create_backend_app)), threaded=True)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    _serve()
