"""Partitioned entities by the official SDK, on several stores, named after rows."""
