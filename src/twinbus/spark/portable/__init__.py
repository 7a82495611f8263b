"""Reads and writes any namespace by azure-servicebus; it need not be a twinbus."""
