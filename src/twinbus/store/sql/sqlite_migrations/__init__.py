"""Formats of a SQLite store, from the first: see `sqlite_format.py`."""
