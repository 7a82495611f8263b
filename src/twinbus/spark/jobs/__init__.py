"""Jobs that Spark runs over messages and logs: one package for each, and what they
share."""
