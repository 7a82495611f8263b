"""The doors: each translates a protocol into operations and decides nothing."""
