"""Requests by a fuzzer, made after a description of them."""
