"""Tests of the syphon's own engine, without sockets."""
