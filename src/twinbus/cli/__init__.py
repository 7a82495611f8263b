"""The command line: it reads flags, calls the bus, prints tables and sets exit codes.

It has no rules of messaging: the server and the configuration check what is asked for.
"""
