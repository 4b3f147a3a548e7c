"""Labelled items written down as they were used, so that an evaluation can be repeated on the same ones."""

from __future__ import annotations

import msgspec

from faircount.reading.labelled import Labelled


def saved_row(labelled: Labelled) -> bytes:
    """Return an item as one line of JSONL that `read_labels` reads again, line feed included.

    Hits and passes are as they were used: where labels were inverted, those written down are not to be inverted again.
    """
    attempt, expected = labelled.attempt, labelled.attempt.expected
    more = {
        "conversation": attempt.conversation,
        "tools_called": attempt.tools_called,
        "context": attempt.context,
        "expected_output": expected.output,
        "expected_tools": expected.tools_called,
        "expected_context": expected.context,
        "latency": attempt.latency,
        "notes": attempt.notes or None,
    }
    row = {
        "item": labelled.item,
        "prompt": attempt.prompt,
        "response": attempt.response,
        "label": labelled.label,
        "ratings": dict(labelled.ratings),
        "place": labelled.place,
        **{name: value for name, value in more.items() if value is not None and value != ()},
    }
    return msgspec.json.encode(row) + b"\n"
