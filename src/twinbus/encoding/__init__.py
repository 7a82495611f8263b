"""Converts between encoded AMQP messages and the broker's messages.

The broker keeps a sender's bytes unchanged. This package knows where the sections are,
which of them the broker needs, and how to build a delivery from the bytes and the
properties that the broker added.
"""
