"""An analysis that a notebook shows as a page would, and a terminal as the command line does."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from faircount.analysis.arrange import as_report
from faircount.model import Analysis
from faircount.notebook.fragment import fragment
from faircount.present import console


class Summary(Analysis, frozen=True):
    """Every figure of one analysis as an attribute; a notebook shows it as HTML, `print` as text."""

    figures: bool = True

    @classmethod
    def of(cls, analysis: Analysis, *, figures: bool) -> Summary:
        """Return an analysis as one that shows itself."""
        return cls(**structs.asdict(analysis), figures=figures)

    def __str__(self) -> str:
        """Return everything, as the command line prints it."""
        return console.render(as_report([self])).strip("\n")

    def __repr__(self) -> str:
        """Return the overview: findings and the general figures."""
        return str(self if self.overview else structs.replace(self, overview=True))

    def _repr_html_(self) -> str:
        return fragment(as_report([self], figures=self.figures))

    def _repr_mimebundle_(self, **_: object) -> Mapping[str, str]:
        """Return what notebooks may choose from."""
        return {"text/html": self._repr_html_(), "text/plain": repr(self)}
