"""HTTP: requests of a connection, and what answers them.

Administration of entities, health; a bus that answers over AMQP answers here on the
same port. It knows the namespace by its ports only, and nothing of AMQP.
"""
