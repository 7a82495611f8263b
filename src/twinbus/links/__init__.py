"""The links of clients to entities: they connect AMQP deliveries with the broker.

This is the hot part of the shell. It has no asyncio and no I/O: a link gets events from
its connection, writes into the open change set of a store, and is notified when that is
durable. It is compiled together with the packages that it uses.
"""
