"""The links of clients to queues: where AMQP deliveries meet the domain.

The hot part of the shell. It has no asyncio and no I/O: a link is handed events by
its connection, writes into the open change set of a store, and is told when that
is durable. Compiled together with the packages it stands on.
"""
