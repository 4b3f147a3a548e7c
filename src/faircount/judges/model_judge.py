"""What judges that ask a model have in common."""

from __future__ import annotations

from typing import Any

from faircount.judges.asking import Asks, Questioner
from faircount.judges.judge import Judge


class ModelJudge(Judge):
    """A judge that asks a model by a questioner. It waits most of the time, and its verdicts have scores."""

    scores = True
    waits = True

    def __init__(self, questioner: Questioner, **parameters: Any) -> None:
        self._questioner = questioner
        super().__init__(**parameters)

    def ask_with(self, client: Asks) -> None:
        """Ask by this client instead of one made from the settings."""
        self._questioner.ask_with(client)

    def ready(self) -> None:
        """Make the client now, so that a missing key is told before any work begins."""
        self._questioner.ready()

    def close(self) -> None:
        """Close the client."""
        self._questioner.close()
