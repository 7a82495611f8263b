"""Tests of the documentation: code on pages runs, links are valid."""
