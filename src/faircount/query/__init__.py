"""Which rows are meant: the language of `--where`, and the terms of `--custom-search`.

Decides about one row at a time, and knows nothing of files, entries or outcomes: what Faircount says of a row is
handed in. Texts are compared and searched, never run.
"""

from faircount.query.custom import Condition, CustomSearch, possible_fields
from faircount.query.parser import parse
from faircount.query.query import Query
from faircount.query.scanner import QueryError
from faircount.query.tree import COMPUTED

__all__ = ["COMPUTED", "Condition", "CustomSearch", "Query", "QueryError", "parse", "possible_fields"]
