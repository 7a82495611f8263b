"""Tests of the syphon's engine over azure-servicebus, without sockets."""
