"""Tests of WebSockets: no sockets."""
