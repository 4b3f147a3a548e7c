"""Work that a thread does beside other work; what it gives, or how it failed, is there where it is wanted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Answered = TypeVar("Answered")


class Beside(Generic[Answered]):
    """A function being called by a thread of its own, from now on."""

    def __init__(self, work: Callable[[], Answered]) -> None:
        self._work = work
        self._answers: list[Answered] = []
        self._failures: list[Exception] = []
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            self._answers.append(self._work())
        except Exception as error:  # noqa: BLE001 (raised where the answer is wanted)
            self._failures.append(error)

    def answer(self) -> Answered:
        """Wait for the function to end; return what it returned, or raise what it raised."""
        self.thread.join()
        if self._failures:
            raise self._failures[0]
        return self._answers[0]
