"""A soak of attackers: all that is known to have hurt a bus, at once, beside a client
that does its work. `python -m bench.attackers --help`."""
