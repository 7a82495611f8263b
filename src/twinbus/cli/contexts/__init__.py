"""Contexts: namespaces with names, so that no connection string is typed twice."""
