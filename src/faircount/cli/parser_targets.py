"""The words of `faircount targets`. Only the argument parser is imported here."""

from __future__ import annotations

from faircount.cli.parsing import EXIT_CODES, Verbs, add_field, add_noun, add_output, command

_PLACE = "write there instead of to standard output"


def add_targets(nouns: Verbs) -> None:
    """Add `targets` and its commands."""
    verbs = add_noun(
        nouns,
        "targets",
        short="which targets there are, and what one answers",
        what="Which targets can be named, and what one of them answers to a prompt.",
    )
    _add_list(verbs)
    _add_try(verbs)


def _add_list(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "list",
        help="the targets that can be named",
        description="List the targets that can be named: servers, programs, code, saved results and simulations.",
        epilog="example: faircount targets list --output-format markdown\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.targets", "list_targets"))
    add_output(parser, page="html needs -o", place=_PLACE)


def _add_try(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "try",
        help="what one target answers to one prompt",
        description="Send one prompt to a target and show what came: the answer with what it took, what a guardrail\n"
        "said, or the error. Nothing is judged and nothing is kept.",
        epilog="examples: faircount targets try simulated 'What is 17 + 25?'\n"
        "          faircount targets try ./target.toml 'Hello' --system 'Be brief.'\n"
        "          faircount targets try 'command(argv=[\"./bot\"])' - < prompt.txt\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.targets", "try_target"))
    parser.add_argument("target", metavar="TARGET", help="a name, as --target of run takes it; see targets list")
    parser.add_argument("prompt", metavar="PROMPT", help="what the user says; - for standard input")
    group = parser.add_argument_group("what is sent")
    group.add_argument("--system", metavar="TEXT", help="a message of the system before it")
    add_field(group)
    group = parser.add_argument_group("target")
    group.add_argument("--model", metavar="NAME", help="the model that is asked")
    group.add_argument("--base-url", metavar="URL", help="where it is: an endpoint that is compatible with OpenAI's")
    group.add_argument(
        "--api-key-env", metavar="NAME", help="the environment variable with its key (default: OPENAI_API_KEY)"
    )
    group.add_argument("--target-args", metavar="JSON", help="arguments of the target, as a JSON object")
    group.add_argument("--config", metavar="FILE", help="a TOML file with prices and models")
    group.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS", help="for one try (default: 60)")
    group.add_argument("--tries", type=int, default=1, metavar="N", help="send it up to N times (default: 1)")
    add_output(parser, page="html needs -o", place=_PLACE)
