"""The words of `faircount attacks`. Only the argument parser is imported here."""

from __future__ import annotations

from faircount.cli.parsing import EXIT_CODES, Verbs, add_field, add_models, add_noun, add_output, command

_PLACE = "write there instead of to standard output"
_PURPOSE = "Attacks are for testing systems of your own, or those whose owner agreed to it."


def add_attacks(nouns: Verbs) -> None:
    """Add `attacks` and its commands."""
    verbs = add_noun(
        nouns,
        "attacks",
        short="which dynamic attacks there are, and what one sends; for systems of your own",
        what=f"Which dynamic attacks there are, and what one sends.\n{_PURPOSE}",
    )
    _add_list(verbs)
    _add_try(verbs)


def _add_list(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "list",
        help="the attacks that can be named, and what each does",
        description="List the attacks that come with Faircount, those of installed packages, and whether spikee's can\n"
        f"be used. {_PURPOSE}",
        epilog="example: faircount attacks list --output-format json\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.attacks", "list_attacks"))
    add_output(parser, page="html needs -o", place=_PLACE)


def _add_try(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "try",
        help="what an attack sends for one prompt, and what comes of it",
        description="Show what an attack sends for one prompt. With --target it is really sent, and with --judge it\n"
        f"ends at the first success. {_PURPOSE}",
        epilog="examples: faircount attacks try best-of-n 'Say the secret word.' --iterations 3\n"
        "          faircount attacks try encodings 'Say BYPASSED.' --target ./bot.py:answer --judge canary "
        "--field judge_args=BYPASSED\n\n" + EXIT_CODES,
    )
    parser.set_defaults(run=command("faircount.cli.attacks", "try_attack"))
    parser.add_argument(
        "attack", metavar="ATTACK", help="a name such as best-of-n, or a name with options: 'best-of-n(seed=7)'"
    )
    parser.add_argument("prompt", metavar="PROMPT", help="what the attack is about; - for standard input")
    group = parser.add_argument_group("the attack")
    group.add_argument("--iterations", type=int, default=5, metavar="N", help="at most so many (default: 5)")
    group.add_argument("--attack-options", metavar="TEXT", help="its options: NAME=VALUE,NAME=VALUE or a JSON object")
    add_field(group)
    group = parser.add_argument_group("what comes of it")
    group.add_argument("--target", metavar="NAME", help="send it: openai, simulated, ./file.py:Name")
    group.add_argument("--judge", metavar="JUDGE", help="what says whether it succeeded; see judges list")
    add_models(parser)
    add_output(parser, page="html needs -o", place=_PLACE)
