"""Stores: the public checks over each backend, and what only SQLite can suffer."""
