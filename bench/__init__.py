"""Benches: twinbus and RabbitMQ under the same load, in the same run.

`python -m bench` measures throughput, latency and CPU; `bench.backlog` memory and
restart with millions of waiting messages; `bench.topics`, `bench.rules`,
`bench.sessions` and `bench.entities` what many of those cost; `bench.pairing` breaks a
primary under load; `bench.against` and `bench.instructions` compare two trees of
twinbus. `python -m bench.report` writes what they found into docs/benchmarks.md. The
load comes from `load.c`, but for sessions and pairs.
"""
