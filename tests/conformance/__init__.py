"""Numbered cases that the official SDK must pass against a running bus."""
