"""HTTP: connections, requests and responses.

It serves administration of entities, bulk requests, metrics and health, on the same
ports as AMQP. It reaches the namespace through interfaces only, and knows nothing of
AMQP.
"""
