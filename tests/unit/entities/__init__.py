"""Tests of the asyncio shell, without sockets."""
