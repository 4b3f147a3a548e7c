"""Statistics as pure functions: counts and arrays in, estimates out. Knows nothing of attempts, files or reports."""

from faircount.stats.detectors import confusion_estimates
from faircount.stats.proportion import undefined, wilson

__all__ = ["confusion_estimates", "undefined", "wilson"]
