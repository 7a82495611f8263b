"""Tests of messages that go from one store to another."""
