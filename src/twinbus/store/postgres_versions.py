"""Formats of what is kept in PostgreSQL, for code that runs without its driver, too."""

from typing import Final

STORE_FORMAT: Final = 1
CATALOG_FORMAT: Final = 3
