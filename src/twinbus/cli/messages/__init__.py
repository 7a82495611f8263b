"""Messages by hand: sent, received, peeked at and purged, with our own AMQP client.

Messages are JSON with the columns of Spark's rows (decision 0018): values as texts, and
beside them the AMQP types that a text does not tell.
"""
