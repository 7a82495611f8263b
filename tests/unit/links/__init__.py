"""Tests of links to queues, over a wire without sockets."""
