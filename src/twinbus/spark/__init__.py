"""Service Bus in Spark: a data source, a sink, and jobs (decision 0009).

The bus imports nothing of it. Executors need `pyarrow` and this package; for namespaces
that are not twinbus, they also need `azure-servicebus`.
"""
