"""Formats of a SQLite catalog, from the first: see `sqlite_format.py`."""
