"""The language in which rules are written: SQL texts become the nodes of `rules`.

Used when a rule is added or read back from the store, never when a message passes. So
it is not compiled, and the parser library is imported with the first text.
"""
