"""The domain logic of queues, topics and sessions. It knows neither clients nor stores.

Pure: nothing here awaits, reads a clock, draws randomness or does I/O. The time (`now`)
and random bytes are parameters; changes to persist are written into a `ChangeSet`.
"""
