"""The SQL language of rules: texts are parsed to the expressions of `rules`.

It is used when a rule is added or read from the store, never per message. So it is not
compiled, and the parser library is imported with the first text.
"""
