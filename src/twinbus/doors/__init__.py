"""The doors: each translates a protocol into operations; they contain no domain
logic."""
