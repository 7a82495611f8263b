"""Between stores: what is in the outbox of one store is brought to another."""
