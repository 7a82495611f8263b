"""Rows from messages and messages from rows: the loops of the stores, compiled."""
