"""The syphon's engine over `twinbus.client`, for two namespaces that are twinbus.

Messages stay bytes: what a detour took is put back into them, and the body is never
looked at. They go out in envelopes, are taken whole, and settled in ranges.
"""
