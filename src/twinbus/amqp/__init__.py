"""A sans-I/O AMQP 1.0 engine for both roles: bytes in, events out, bytes out.

Nothing here awaits, reads a clock, draws randomness or opens anything, and nothing of
the rest of the package is imported. Start with connection.py; state.py has every legal
transition, fastpath.py and transfers.py what happens once per message.

Modules on the path of each message are written so that mypyc can compile them; the
rest runs as it is: types, errors, composite, performatives, messaging, outcomes,
transactions, sasl, handshake and state.
"""
