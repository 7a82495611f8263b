"""What happened to one message, from the exported operation logs."""
