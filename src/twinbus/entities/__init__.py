"""Queues, topics and subscriptions of a namespace: found, made, changed, removed."""
