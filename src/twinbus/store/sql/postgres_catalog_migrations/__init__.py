"""Formats of a PostgreSQL catalog, from the first: see `postgres_catalog.py`."""
