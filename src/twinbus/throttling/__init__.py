"""Throttling: requests are refused with server-busy while a measure is too high.

`gauges.py` measures, `verdict.py` compares with the thresholds, `credits.py` counts
operations, and `throttle.py` does all that a few times per second and leaves the result
where senders look anyway.
"""
