"""Options that several calls share. The command line needs them early: nothing heavy is imported."""

from __future__ import annotations

from typing import Annotated

from faircount.options import Option, Options


class Models(Options, frozen=True, kw_only=True):
    """What judges that ask a model need."""

    config: Annotated[
        str | None, Option("TOML file with judges, prices and models", "models and configuration", metavar="FILE")
    ] = None
    model: Annotated[str | None, Option("model for LLM judges", metavar="NAME")] = None
    base_url: Annotated[str | None, Option("base URL of an OpenAI-compatible endpoint", metavar="URL")] = None
    api_key_env: Annotated[
        str | None,
        Option("environment variable with the API key", metavar="NAME", default="OPENAI_API_KEY"),
    ] = None


class RejudgeFiles(Options, frozen=True, kw_only=True):
    """Which judges judge again, where verdicts are kept and where the rows go."""

    judge: Annotated[
        str | None,
        Option(
            "judge for all rows; a hit is a success", "judges", metavar="JUDGE", default="the judge that each row names"
        ),
    ] = None
    allow_judge: Annotated[
        tuple[str, ...],
        Option(
            "judge rows that name NAME with JUDGE, or with the judge of that name; without this, rows can name only "
            "judges that compare strings",
            "judges",
            metavar="NAME[=JUDGE]",
        ),
    ] = ()
    resume: Annotated[
        bool, Option("accepted for compatibility with spikee: interrupted runs always resume", "verdicts")
    ] = False
    store: Annotated[
        str | None,
        Option("where verdicts are stored", "verdicts", metavar="FILE", default="a folder in the user's cache"),
    ] = None
    dry_run: Annotated[
        bool, Option("show how many calls are needed and what they cost, without making any", "verdicts")
    ] = False
    rejudged: Annotated[
        str | None,
        Option("write the rows to FILE", "verdicts", metavar="FILE", default="rejudge_… next to the input"),
    ] = None
    force: Annotated[bool, Option("overwrite the file that --rejudged names", "verdicts")] = False
