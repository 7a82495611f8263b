"""Any namespace, by azure-servicebus: what needs no twinbus at the other end."""
