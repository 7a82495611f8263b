"""The doors: each translates a protocol into operations, without domain logic."""
