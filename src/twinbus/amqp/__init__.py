"""A sans-I/O AMQP 1.0 engine for both roles: bytes in, events out, bytes out.

Nothing here awaits, reads a clock, draws randomness or opens anything, and no other
package of twinbus is imported. Start with connection.py; state.py has every legal
transition, fastpath.py and transfers.py have the code that runs once per message.

Modules on the path of each message are compiled by mypyc. The others are not: types,
errors, composite, performatives, messaging, outcomes, transactions, sasl, handshake and
state.
"""
