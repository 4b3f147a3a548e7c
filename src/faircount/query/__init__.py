"""Expressions: the language of `--where` and `--keyword`, what gates and stop rules share, and `--custom-search`.

Decides about one row at a time, and knows nothing of files, entries or outcomes: what Faircount says of a row is
handed in. Texts are compared and searched, never run.
"""

from faircount.query.custom import Condition, CustomSearch, possible_fields
from faircount.query.parser import LONGEST, QueryError, parse, parse_keyword
from faircount.query.query import COMPUTED, Query

__all__ = [
    "COMPUTED",
    "LONGEST",
    "Condition",
    "CustomSearch",
    "Query",
    "QueryError",
    "parse",
    "parse_keyword",
    "possible_fields",
]
