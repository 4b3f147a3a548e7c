"""An analysis that a notebook shows as a page would, and a terminal as the command line does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from faircount.analysis.arrange import as_report
from faircount.model import Analysis, Examples
from faircount.notebook.fragment import fragment
from faircount.present import console
from faircount.report import Report


class Summary(Struct, frozen=True):
    """An analysis with every figure of it as an attribute; a notebook shows it as HTML, `print` as text.

    `evidence` has entries with their texts: those asked for, and the failed cases of a run of tests.
    """

    analysis: Analysis
    evidence: tuple[Examples, ...] = ()
    figures: bool = True
    overview: bool = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.analysis, name)

    def __str__(self) -> str:
        """Return everything, as the command line prints it."""
        return console.render(self._report(overview=self.overview)).strip("\n")

    def __repr__(self) -> str:
        """Return the overview: findings and the general figures."""
        return console.render(self._report(overview=True)).strip("\n")

    def _repr_html_(self) -> str:
        return fragment(self._report(figures=self.figures, overview=self.overview))

    def _report(self, *, figures: bool = False, overview: bool) -> Report:
        evidence = {self.analysis.name: self.evidence}
        return as_report([self.analysis], evidence=evidence, figures=figures, overview=overview)

    def _repr_mimebundle_(self, **_: object) -> Mapping[str, str]:
        """Return what notebooks may choose from."""
        return {"text/html": self._repr_html_(), "text/plain": repr(self)}
