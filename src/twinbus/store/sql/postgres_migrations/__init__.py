"""Formats of a PostgreSQL store, from the first: see `postgres_format.py`."""
