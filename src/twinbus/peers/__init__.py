"""What another broker owns, reached through it by AMQP (docs/decisions/0017)."""
