"""The syphon's engine over `twinbus.client`, for two namespaces that are twinbus.

Messages stay bytes: properties that the detour changed are put back, and the body is
never decoded. Messages are sent in batches and settled in ranges.
"""
