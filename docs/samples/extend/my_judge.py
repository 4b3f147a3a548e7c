from faircount import Attempt


def apologises(attempt: Attempt, word: str = "sorry") -> bool:
    """The response apologises."""
    return word in (attempt.response or "").lower()
