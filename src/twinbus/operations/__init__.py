"""What can be done with an entity, for every door."""
