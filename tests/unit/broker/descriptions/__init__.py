"""Tests of descriptions, one file for each kind of entity that differs."""
