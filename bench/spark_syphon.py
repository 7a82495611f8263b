"""A backlog brought back by the Spark job, and by the in-process syphon, in turns.

Each on new namespaces, with a backlog that is made as paired senders make it, and with
nothing else to do. The in-process syphon is one process; the job has all cores, which
it shares with the two namespaces.
"""

import asyncio

from pyspark.sql import SparkSession

from bench.pairing_drain import drain, fill_backlog, moved_and_left, two_sites
from bench.pairing_load import PRIMARY
from bench.pairing_process import ProcessFailed
from bench.pairing_results import OWN_ENGINE
from bench.spark_results import IN_PROCESS, SPARK_JOB, SyphonResult
from bench.spark_session import credential
from twinbus.spark.syphon import SyphonOptions, run_syphon

_QUEUES = 10


async def measure_syphons(
    spark: SparkSession, messages: int, rounds: int
) -> list[SyphonResult]:
    results = {name: SyphonResult(name, messages) for name in (SPARK_JOB, IN_PROCESS)}
    for _ in range(rounds):
        for name, result in results.items():
            async with two_sites() as (primary, secondary):
                await fill_backlog(secondary, messages, _QUEUES)
                if name == IN_PROCESS:
                    seconds = await drain(OWN_ENGINE, primary, secondary)
                else:
                    sites = (primary.connection_string, secondary.connection_string)
                    seconds = await asyncio.to_thread(_run_job, spark, *sites)
                moved, left = await moved_and_left(primary, secondary)
            if (moved, left) != (messages, 0):
                raise ProcessFailed(f"{moved} of {messages} moved, {left} are left")
            result.rates.append(messages / seconds)
    return list(results.values())


def _run_job(spark: SparkSession, primary: str, secondary: str) -> float:
    with credential(primary) as to, credential(secondary) as of:
        options = SyphonOptions(primary=to, secondary=of, primary_name=PRIMARY)
        return run_syphon(spark, options).seconds
