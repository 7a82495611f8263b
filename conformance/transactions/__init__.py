"""Transactions, by a client that has them: Qpid Proton.

The vendor's SDK for Python has no transactions, so its tests cannot speak of them.
What is expected here is what the SDKs for .NET and Java rely on. The SDK for Python
is the witness: what it peeks is what everybody can see.
"""
