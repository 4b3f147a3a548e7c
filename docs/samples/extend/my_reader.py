from collections.abc import Iterator

import msgspec

from faircount.readers import Probe, ToolFile, ToolReader, ToolRecord


class Request(msgspec.Struct):
    case: str
    prompt: str
    answer: str | None = None
    broken: bool | None = None


class MyReader(ToolReader):
    name = tool = "mytool"

    def sniff(self, probe: Probe) -> bool:
        return probe.head.startswith(b'{"case":')

    def records(self, file: ToolFile) -> Iterator[ToolRecord]:
        decoder = msgspec.json.Decoder(Request)
        for line, text in file.json_lines():
            if request := file.decode(text, decoder, line):
                yield ToolRecord(
                    line=line,
                    entry=request.case,
                    prompt=request.prompt,
                    response=request.answer,
                    success=request.broken,
                )
