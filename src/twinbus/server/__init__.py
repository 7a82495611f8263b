"""The asyncio shell: sockets, timers and the loop that commits.

It translates between AMQP and the domain and decides nothing itself.
"""
