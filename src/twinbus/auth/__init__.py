"""Who may do what: shared access signatures, keys and claims.

Pure and told the time; used by every protocol's shell. Secrets are compared in
constant time and are never part of a representation or an error text.
"""
