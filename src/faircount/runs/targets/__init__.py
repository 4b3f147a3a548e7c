"""Targets: what cases are sent to. A server, the user's own code, or a simulation that needs neither network nor key.

A target answers one request at a time per call and keeps nothing of it. It judges nothing, numbers nothing and writes
nothing down; limits on how many requests are under way at once, and the journal, are the engine's.
"""
