"""Several brokers that share one set of stores (docs/decisions/0017-brokers.md)."""
