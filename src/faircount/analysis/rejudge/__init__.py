"""`results rejudge`: results judged again, what changed, and what that does to the rate."""
