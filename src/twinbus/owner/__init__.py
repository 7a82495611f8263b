"""The owner of a store: commits what happens to its fragments, then answers."""
