"""Bulk requests over HTTP: read and write many messages at a time, as for Spark."""
