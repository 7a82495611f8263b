"""What a running bus does: its entities, brokers and pair, once or live."""
