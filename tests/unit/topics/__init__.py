"""Tests of the domain: no clock, no wire, no disk."""
