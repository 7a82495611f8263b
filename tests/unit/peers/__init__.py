"""Tests of what brokers do for each other, without sockets."""
