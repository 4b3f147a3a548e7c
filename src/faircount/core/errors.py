"""The errors that Faircount raises on purpose, each with the exit code that the command line gives it.

    FaircountError
    ├── UsageError      2   the request cannot be carried out as it was put (flags, configuration, output place)
    └── InputError      3   a file is missing, unreadable, or holds nothing that can be counted

An OSError that none of these explains ends with exit code 74.

A message says what happened, where, and what to do. Text that comes from a record must have passed
`faircount.core.text` before it is put in a message.
"""


class FaircountError(Exception):
    """Base of every error raised on purpose."""

    exit_code = 70
    further: tuple[str, ...] = ()
    """Lines that are shown under the message on a terminal; part of the text of the error."""


class UsageError(FaircountError):
    """The request itself is wrong: a flag, a combination of flags, or a place to write to."""

    exit_code = 2


class InputError(FaircountError):
    """The input cannot be used: missing, unreadable, or without a good line."""

    exit_code = 3
