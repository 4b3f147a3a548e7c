"""A server for benchmarks that speaks as much of OpenAI's protocol as chat clients need, and takes its time to answer.

It answers streaming and plain requests for chat completions after a delay, always with the same words. `GET /stats`
tells how many requests came since it was last asked, in how many seconds from the first request to the last answer, and
how many were under way at once.

Run: .venv/bin/python -m bench.openai_stub --delay 50
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from typing import Any, cast

WORDS = "The answer is 42, and that is all."
_PLAIN = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "stub-1",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": WORDS}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 12, "completion_tokens": 9, "total_tokens": 21},
}


def _chunk(delta: dict[str, str], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    told = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "stub-1", "choices": [choice]}
    return b"data: " + json.dumps(told).encode() + b"\n\n"


def _framed(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def _whole(content: Any) -> bytes:
    body = json.dumps(content).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _streamed() -> bytes:
    middle = len(WORDS) // 2
    events = [
        _chunk({"role": "assistant", "content": WORDS[:middle]}),
        _chunk({"content": WORDS[middle:]}),
        _chunk({}, "stop"),
        b"data: [DONE]\n\n",
    ]
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(map(_framed, events)) + b"0\r\n\r\n"


PLAIN, STREAMED = _whole(_PLAIN), _streamed()


class Stats:
    """What came since it was last asked."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Begin anew."""
        self.requests = self.at_once = self.most_at_once = 0
        self.first = self.last = 0.0

    def begin(self) -> None:
        """Count a request."""
        self.first = self.first or time.perf_counter()
        self.requests += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)

    def end(self) -> None:
        """Count an answer."""
        self.last = time.perf_counter()
        self.at_once -= 1

    def told(self) -> dict[str, float]:
        """Return all figures."""
        return {"requests": self.requests, "seconds": self.last - self.first, "most_at_once": self.most_at_once}


class Connection(asyncio.Protocol):
    """One connection, on which one request follows the other."""

    def __init__(self, stats: Stats, delay: float) -> None:
        self._stats = stats
        self._delay = delay
        self._data = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what is written to."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        del exc
        self._transport = None

    def data_received(self, data: bytes) -> None:
        """Answer every request that is whole."""
        self._data += data
        while (end := self._data.find(b"\r\n\r\n")) >= 0:
            head = self._data[:end]
            length = _length(head)
            if len(self._data) < end + 4 + length:
                return
            body, self._data = self._data[end + 4 : end + 4 + length], self._data[end + 4 + length :]
            self._serve(head, body)

    def _serve(self, head: bytes, body: bytes) -> None:
        if head.startswith(b"GET /stats"):
            self._write(_whole(self._stats.told()))
            self._stats.clear()
            return
        self._stats.begin()
        answer = STREAMED if json.loads(body).get("stream") else PLAIN
        asyncio.get_running_loop().call_later(self._delay, self._answer, answer)

    def _answer(self, answer: bytes) -> None:
        self._write(answer)
        self._stats.end()

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


async def serve(port: int, delay: float) -> None:
    """Answer until the process is ended; the port is printed."""
    stats = Stats()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(stats, delay), "127.0.0.1", port, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0, help="0 takes any that is free")
    parser.add_argument("--delay", type=float, default=50.0, help="milliseconds before each answer")
    arguments = parser.parse_args()
    asyncio.run(serve(arguments.port, arguments.delay / 1000))


if __name__ == "__main__":
    main()
