"""Between encoded AMQP messages and the broker's messages, in both directions.

The broker keeps a sender's bytes untouched; this package knows where in them the
sections lie, what of them the broker must know, and how a delivery is put together
from them and from what the broker added.
"""
