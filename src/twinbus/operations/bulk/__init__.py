"""What the bulk requests do to the entities of this server."""
