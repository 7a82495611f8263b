"""Statements of the SQL stores, each with a name, and their migrations."""
