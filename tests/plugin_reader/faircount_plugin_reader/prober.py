"""The logs of prober: a line for each request, `id | technique | verdict | prompt | response`.

The verdict is `broken`, `held` or `down`. Prober is fictitious; its format shows what a reader needs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from faircount.ledger import Batch, Fields
from faircount.readers import Found, Probe, Reader, ReadOptions, RowMaker, RunFile, Stream, blocks

_VERDICTS = {"broken": True, "held": False, "down": None}
_PARTS = 5


class ProberReader(Reader):
    """Reads prober's logs."""

    name = tool = "prober"
    noun = "request of prober"
    ranges = True
    fields = Fields(first=("technique",), facets=("technique",), case=("technique",))

    def sniff(self, probe: Probe) -> bool:
        """Return whether the first line is a request."""
        return _request(probe.head.partition(b"\n")[0]) is not None

    def read(self, stream: Stream, options: ReadOptions, found: Found) -> Iterator[Batch]:
        """Yield a batch for each block of lines."""
        maker = RowMaker(options, found.notes)
        for block in blocks(stream, options.max_line):
            rows, batch = [], Batch()
            for line in block.lines:
                found.lines += 1
                request = _request(line)
                if request is None:
                    found.add_bad("not a request of prober", found.lines)
                    continue
                if found.excludes(found.lines):
                    continue
                name, technique, verdict, prompt, response = request
                found.good += 1
                rows.append(
                    maker.single_row(
                        found.lines,
                        name,
                        prompt=prompt,
                        response=response,
                        success=_VERDICTS[verdict],
                        error="the target was down" if verdict == "down" else None,
                        fields={"technique": technique},
                    )
                )
            batch.extend(rows, maker.facets)
            yield batch

    def rows(self, stream: Stream, head: bytes, again: Callable[[], Iterator[bytes]] | None) -> RunFile | None:
        """Turn the requests of a stream into rows that can be shown."""
        del head, again
        lines = [line for block in blocks(Stream(stream.name, stream.chunks)) for line in block.lines]
        stream.chunks = (_row(line) for line in lines)
        return RunFile("prober", self.name, aim="attack")


def _request(line: bytes) -> list[str] | None:
    parts = line.decode("utf-8", "replace").split(" | ")
    return parts if len(parts) == _PARTS and parts[2] in _VERDICTS else None


def _row(line: bytes) -> bytes:
    request = _request(line)
    if request is None:
        return b"?\n"
    name, technique, verdict, prompt, response = request
    error = "the target was down" if verdict == "down" else None
    row = {"id": name, "success": _VERDICTS[verdict], "input": prompt, "response": response, "error": error}
    return json.dumps({**row, "technique": technique}).encode() + b"\n"
