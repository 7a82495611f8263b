"""The language in which rules are written: SQL texts to the nodes of `rules`.

Used when a rule is added or read back from the store, never when a message passes. The
parser is a library, which is imported when the first text is read and not before.
"""
