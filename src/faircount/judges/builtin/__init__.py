"""The judges that come with Faircount. Nothing is loaded before it is asked for: see `judging/registry.py`."""
