"""Topics: a copy of each message for every subscription whose rules match.

The package uses rules and the encoding of messages. It is pure, gets the time as a
parameter, and is compiled like the packages that it uses.
"""
