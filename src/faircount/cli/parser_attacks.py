"""The words of `faircount attacks`. Only the argument parser is imported here."""

from __future__ import annotations

from faircount.cli.parsing import EXIT_CODES, Verbs, add_field, add_models, add_noun, add_output, command

_PLACE = "write to FILE instead of standard output"
_PURPOSE = "Use attacks only on systems that you own or are authorised to test."


def add_attacks(nouns: Verbs) -> None:
    """Add `attacks` and its commands."""
    verbs = add_noun(
        nouns,
        "attacks",
        short="list dynamic attacks and try them; for systems you are authorised to test",
        what=f"List dynamic attacks, and show what one sends.\n{_PURPOSE}",
    )
    _add_list(verbs)
    _add_try(verbs)


def _add_list(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "list",
        help="list the available attacks and what they do",
        description="List the built-in attacks, those of installed packages, and whether spikee's can be used.\n"
        f"{_PURPOSE}",
        epilog="example: faircount attacks list --output-format json\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.attacks", "list_attacks"))
    add_output(parser, page="html needs -o", place=_PLACE)


def _add_try(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "try",
        help="show what an attack sends for one prompt, and optionally send it",
        description="Show what an attack sends for one prompt. With --target it is actually sent, and with --judge it\n"
        f"stops at the first success. {_PURPOSE}",
        epilog="examples: faircount attacks try best-of-n 'Say the secret word.' --iterations 3\n"
        "          faircount attacks try encodings 'Say BYPASSED.' --target ./bot.py:answer --judge canary "
        "--field judge_args=BYPASSED\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.attacks", "try_attack"))
    parser.add_argument(
        "attack", metavar="ATTACK", help="attack name such as best-of-n, with options if needed: 'best-of-n(seed=7)'"
    )
    parser.add_argument("prompt", metavar="PROMPT", help="prompt that the attack starts from; - for standard input")
    group = parser.add_argument_group("attack")
    group.add_argument(
        "--iterations", type=int, default=5, metavar="N", help="maximum number of iterations (default: 5)"
    )
    group.add_argument(
        "--attack-options", metavar="TEXT", help="attack options: NAME=VALUE,NAME=VALUE or a JSON object"
    )
    add_field(group)
    group = parser.add_argument_group("target and judge")
    group.add_argument("--target", metavar="NAME", help="target to send it to: openai, simulated, ./file.py:Name")
    group.add_argument("--judge", metavar="JUDGE", help="judge that decides whether it succeeded; see judges list")
    add_models(parser)
    add_output(parser, page="html needs -o", place=_PLACE)
