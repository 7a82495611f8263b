"""Service Bus in Spark: a data source, a sink, and jobs (decision 0009).

Nothing here is imported by the bus. What runs in executors needs the standard library,
`pyarrow` and this package; for namespaces that are not twinbus also `azure-servicebus`.
"""
