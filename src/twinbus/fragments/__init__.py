"""An entity's fragments: which one gets a message, where they are, who is asked."""
