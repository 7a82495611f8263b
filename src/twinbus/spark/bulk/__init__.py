"""A twinbus namespace as Spark reads and writes it: by the bulk requests."""
