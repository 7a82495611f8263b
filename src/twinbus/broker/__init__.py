"""The domain: what a queue decides, without knowing who asks or where it is kept.

Pure. Nothing here awaits, reads a clock, draws randomness or does I/O: `now` and
entropy are parameters, what must be persisted is written into a `ChangeSet`.
"""
