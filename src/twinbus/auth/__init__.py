"""Authorization: shared access signatures, keys and claims.

It is pure, gets the time as a parameter, and is used for every protocol. Secrets are
compared in constant time, and are never part of a representation or an error text.
"""
