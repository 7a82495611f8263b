"""Paired namespaces over the vendor's SDK, azure-servicebus."""
