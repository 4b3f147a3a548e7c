"""The words of `faircount targets`. Only the argument parser is imported here."""

from __future__ import annotations

from faircount.cli.parsing import EXIT_CODES, Verbs, add_field, add_noun, add_output, command

_PLACE = "write to FILE instead of standard output"


def add_targets(nouns: Verbs) -> None:
    """Add `targets` and its commands."""
    verbs = add_noun(
        nouns,
        "targets",
        short="list targets, and try one",
        what="List the available targets, and send a prompt to one of them.",
    )
    _add_list(verbs)
    _add_try(verbs)


def _add_list(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "list",
        help="list the available targets",
        description="List the available targets: servers, programs, code, saved results and simulations.",
        epilog="example: faircount targets list --output-format markdown\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.targets", "list_targets"))
    add_output(parser, page="html needs -o", place=_PLACE)


def _add_try(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "try",
        help="send one prompt to one target",
        description="Send one prompt to a target and show the result: the answer with its time, tokens and cost, the\n"
        "decision of a guardrail, or the error. Nothing is judged or saved.",
        epilog="examples: faircount targets try simulated 'What is 17 + 25?'\n"
        "          faircount targets try ./target.toml 'Hello' --system 'Be brief.'\n"
        "          faircount targets try 'command(argv=[\"./bot\"])' - < prompt.txt\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.targets", "try_target"))
    parser.add_argument("target", metavar="TARGET", help="target name, as for run --target; see targets list")
    parser.add_argument("prompt", metavar="PROMPT", help="user message; - for standard input")
    group = parser.add_argument_group("request")
    group.add_argument("--system", metavar="TEXT", help="system message")
    add_field(group)
    group = parser.add_argument_group("target")
    group.add_argument("--model", metavar="NAME", help="model to use")
    group.add_argument("--base-url", metavar="URL", help="base URL of an OpenAI-compatible endpoint")
    group.add_argument(
        "--api-key-env", metavar="NAME", help="environment variable with the API key (default: OPENAI_API_KEY)"
    )
    group.add_argument("--target-args", metavar="JSON", help="arguments of the target, as a JSON object")
    group.add_argument("--config", metavar="FILE", help="TOML file with prices and models")
    group.add_argument(
        "--timeout", type=float, default=60.0, metavar="SECONDS", help="timeout of one request (default: 60)"
    )
    group.add_argument(
        "--tries", type=int, default=1, metavar="N", help="send a failing request up to N times (default: 1)"
    )
    add_output(parser, page="html needs -o", place=_PLACE)
