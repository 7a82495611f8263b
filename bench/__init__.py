"""Benches: twinbus and RabbitMQ under the same load, in the same run.

`python -m bench` measures throughput, latency and CPU; `python -m bench.backlog`
memory and restart with millions of waiting messages; `python -m bench.report`
writes what they found into docs/benchmarks.md. The load comes from `load.c`.
"""
