"""Persistence: where change sets become durable, and are read back.

`base.py` says what a store is, `checks.py` proves it of any implementation.
"""
