"""Tests of HTTP: no sockets."""
