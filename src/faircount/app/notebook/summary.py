"""An analysis that a notebook shows as a page would, and a terminal as the command line does.

In a notebook it is a piece of HTML among other outputs: scoped, inert, readable without its style. Every text is
escaped by the one function that makes elements (`markup.tag`), as in a page. There is no script, no link, no id and
nothing to load. The style is told by the class of the outermost element, so that it reaches nothing else; its colours
are tints over those of the notebook, whichever theme that has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

from msgspec import Struct

from faircount.analysis.report import as_report
from faircount.core.model import Analysis, Examples
from faircount.report import console
from faircount.report.blocks import Report
from faircount.report.html import Article, Titled, articles_of, block_markup, heading_markup, headline_markup
from faircount.report.markup import Child, Markup, tag

SCOPE = "faircount-report"
_NO_FORMULAS = "tex2jax_ignore mathjax_ignore"
"""Keeps notebooks from taking what stands between dollar signs for a formula, which can hold links."""


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


def fragment(report: Report) -> str:
    """Return the report as one element, with its style inside."""
    style = Markup(f"<style>{_css()}</style>")
    return tag("div", style, *_articles(articles_of(report.sections)), class_=f"{SCOPE} {_NO_FORMULAS}").text


@cache
def _css() -> str:
    return resources.files("faircount.app.notebook").joinpath("fragment.css").read_text(encoding="utf-8")


def _articles(parts: Sequence[Article]) -> Iterator[Markup]:
    for part in parts:
        opening: list[Child] = []
        if part.heading is not None:
            section = part.heading.section
            opening.append(heading_markup(3, section.title, section.subject))
            opening += [block_markup(block, section) for block in section.blocks]
        yield tag("article", *opening, headline_markup(part), *_sections(part.sections))


def _sections(sections: Sequence[Titled]) -> Iterator[Markup]:
    """Yield the first section open and the others folded: a notebook has other things to show."""
    for number, titled in enumerate(sections):
        section = titled.section
        blocks = [block_markup(block, section) for block in section.blocks]
        if number == 0:
            yield tag("section", *blocks)
        else:
            yield tag(
                "details", tag("summary", heading_markup(4, section.title, section.subject)), *blocks, class_="part"
            )
