"""Operating points: the threshold of a guardrail that scores, and what every other one would do."""
