"""Tests that start the real command as a process."""
