"""Bulk requests of clients: a real bus, real HTTP, and the vendor's SDK beside it."""
