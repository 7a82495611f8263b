"""Stores: the public checks over each backend, and faults that only SQLite can have."""
