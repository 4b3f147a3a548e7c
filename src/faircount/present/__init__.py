"""Presenters: a report in, text out. They see nothing but reports; they never read, count or estimate."""
