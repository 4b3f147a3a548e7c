"""A report as a piece of HTML that stands among other outputs of a notebook: scoped, inert, readable without its style.

Every text is escaped by the one function that makes elements (`markup.tag`), as in a page. There is no script, no link,
no id and nothing to load. The style is told by the class of the outermost element, so that it reaches nothing else; its
colours are tints over those of the notebook, whichever theme that has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources

from faircount.present.html import Part, Titled, block_markup, heading_markup, headline_markup, parts_of
from faircount.present.markup import Child, Markup, tag
from faircount.report import Report

SCOPE = "faircount-report"
_NO_FORMULAS = "tex2jax_ignore mathjax_ignore"
"""Keeps notebooks from taking what stands between dollar signs for a formula, which can hold links."""


def fragment(report: Report) -> str:
    """Return the report as one element, with its style inside."""
    style = Markup(f"<style>{_css()}</style>")
    return tag("div", style, *_articles(parts_of(report.sections)), class_=f"{SCOPE} {_NO_FORMULAS}").text


@cache
def _css() -> str:
    return resources.files("faircount.notebook").joinpath("fragment.css").read_text(encoding="utf-8")


def _articles(parts: Sequence[Part]) -> Iterator[Markup]:
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
