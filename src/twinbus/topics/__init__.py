"""Topics: one message in, a copy for every subscription that wants it.

Stands on the rules and on the encoding of messages; pure, told the time, and
compiled like the packages it stands on.
"""
