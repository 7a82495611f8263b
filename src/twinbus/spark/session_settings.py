"""Settings for a session of Spark that runs more than one job of this package."""

from typing import Final

SESSION_SETTINGS: Final = {
    # Spark compiles a class for each part of a query, and keeps 100 of them. An audit
    # has 95 of its own: the next job would have all of them compiled again.
    "spark.sql.codegen.cache.maxEntries": "1000",
}
"""Spark takes them only when it starts."""
