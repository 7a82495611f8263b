"""Tests of descriptions, one file per group of entities."""
