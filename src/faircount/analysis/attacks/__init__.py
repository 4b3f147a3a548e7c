"""Which attacks there are, and what one of them sends: how `attacks list` and `attacks try` answer."""
