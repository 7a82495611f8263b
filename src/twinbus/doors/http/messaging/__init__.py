"""Messages over HTTP: the runtime part of the service's REST interface.

`messaging.py` is the door. The other files translate between HTTP and the operations:
what a path means, what headers and bodies say, what an error is called.
"""
