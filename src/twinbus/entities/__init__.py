"""Queues, topics and subscriptions: finds, creates, updates and deletes them."""
