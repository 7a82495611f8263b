"""What can be done with an entity, for every door.

A door opens an entity for its caller (`entity_handle.open_entity`) and calls the
operations of this package with the handle. They take and give typed values and raise
the errors of `errors.py`; AMQP and HTTP are the doors' business.
"""
