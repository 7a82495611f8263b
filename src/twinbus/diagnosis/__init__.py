"""When a broker is sick: it finds out, leaves data behind, and ends.

`self_check.py` looks for trouble from inside the loop, `watchdog.py` from a thread
beside it. `bundle.py` writes what `sections.py` says about the process.
"""
