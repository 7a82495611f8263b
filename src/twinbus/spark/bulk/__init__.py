"""Reads and writes a twinbus namespace by its bulk requests."""
