"""The command line: flags and words in, calls to the bus, tables and codes out.

It holds no rules of messaging; what it refuses, the server or the configuration
refused.
"""
