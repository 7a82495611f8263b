"""What a server is told: settings, entities, rules and a pair, from all sources."""
