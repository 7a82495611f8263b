"""Backups of a bus that runs, and buses made from them."""
