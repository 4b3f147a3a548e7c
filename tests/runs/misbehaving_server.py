"""A real HTTP server on this machine that answers as a test tells it to: late, half, wrongly or not at all."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any


@dataclass(frozen=True)
class Received:
    """A request as it came; names of headers are in small letters."""

    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Step = Callable[[Received, asyncio.StreamWriter], Awaitable[None]]


def completion(text: str | list[dict[str, str]] | None = "hello", **message: Any) -> dict[str, Any]:
    """Return the body of a good answer."""
    return {
        "id": "chatcmpl-1",
        "model": "m-2024-08-06",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    }


def _head(status: int, headers: Mapping[str, str], length: int) -> bytes:
    lines = [f"HTTP/1.1 {status} X", "Content-Type: application/json", f"Content-Length: {length}"]
    return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in headers.items()), "", ""]).encode()


def answer(content: Any = None, status: int = 200, **headers: str) -> Step:
    """Answer with JSON, or with bytes as they are; `_` in the name of a header stands for `-`."""
    body = content if isinstance(content, bytes) else json.dumps(completion() if content is None else content).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def send(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(_head(status, named, len(body)) + body)

    return send


def failing(status: int, message: str = "no", **headers: str) -> Step:
    """Answer with an error in OpenAI's shape."""
    return answer({"error": {"message": message, "type": "x"}}, status, **headers)


def raw(data: bytes) -> Step:
    """Send bytes and close."""

    async def send(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        writer.close()

    return send


def half() -> Step:
    """Promise more than is sent."""
    body = json.dumps(completion()).encode()
    return raw(_head(200, {}, len(body)) + body[: len(body) // 2])


def reset() -> Step:
    """Break the connection off."""

    async def send(_: Received, writer: asyncio.StreamWriter) -> None:
        transport = writer.transport
        assert isinstance(transport, asyncio.Transport)
        transport.abort()

    return send


def slow(seconds: float, then: Step | None = None) -> Step:
    """Answer late."""

    async def send(received: Received, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(seconds)
        await (then or answer())(received, writer)

    return send


def trickle() -> Step:
    """Begin to answer and never end."""

    async def send(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(_head(200, {}, 100_000))
        while not writer.is_closing():
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.02)

    return send


def huge(size: int) -> Step:
    """Send so many bytes without saying how many will come."""

    async def send(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n")
        piece = b" " * 65536
        for _number in range(size // len(piece)):
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
        writer.write(b"0\r\n\r\n")

    return send


def echo_of_headers(status: int) -> Step:
    """Answer with the headers that came: as text of a good answer, or as the message of an error."""

    async def send(received: Received, writer: asyncio.StreamWriter) -> None:
        told = json.dumps(dict(received.headers))
        content = completion(told) if status == 200 else {"error": {"message": told}}
        echoed = {"x_request_id": received.headers.get("authorization", "")}
        await answer(content, status, **echoed)(received, writer)

    return send


@dataclass
class Server:
    """A server in a thread. Each request takes the next step of the script; the last step stays."""

    script: list[Step] = field(default_factory=lambda: [answer()])
    tls: ssl.SSLContext | None = None
    received: list[Received] = field(default_factory=list)
    most_at_once: int = 0
    port: int = 0
    connections: int = 0
    _at_once: int = 0

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://{'localhost' if self.tls else '127.0.0.1'}:{self.port}/v1"

    def __enter__(self) -> Server:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._run(self._begin())
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _begin(self) -> None:
        self._listening = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self.tls, backlog=512)
        self.port = self._listening.sockets[0].getsockname()[1]

    async def _end(self) -> None:
        self._listening.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while not writer.is_closing():
                await self._serve_one(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        if "chunked" in headers.get("transfer-encoding", ""):
            body = await _chunks(reader)
        received = Received(head[0].split(" ")[1], headers, body)
        self.received.append(received)
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            await step(received, writer)
        finally:
            self._at_once -= 1
        if not writer.is_closing():
            await writer.drain()


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return body
