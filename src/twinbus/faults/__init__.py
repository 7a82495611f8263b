"""Faults on purpose, for tests: which there are, whom they hit, and the hooks.

A fault is a value (`fault.py`). `decision.py` says whether it applies, told the time
and a random number. `fault_table.py` has those that are set, `faults.py` is asked by
doors and stores. Without the setting `allow_faults` none of the hooks exists.
"""
