"""Exact frames against a live bus, by a client that shares no code with it."""
