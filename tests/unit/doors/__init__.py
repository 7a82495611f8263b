"""Tests of the doors, by protocol."""
