"""The operations of bulk requests on entities."""
