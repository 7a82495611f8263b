"""The operations on an entity. All doors use them.

A door opens an entity for its caller (`entity_handle.open_entity`) and calls the
operations of this package with the handle. They take and return typed values, and raise
the errors of `errors.py`. They know neither AMQP nor HTTP.
"""
