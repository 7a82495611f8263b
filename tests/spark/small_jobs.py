"""Settings of Spark for jobs of a few rows, in every application that a test starts."""

import os

TABLE_JARS = "TWINBUS_TEST_TABLE_JARS"
"""The variable with the paths of jars of Delta, separated as in PATH."""

SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    # To make Java code for a query and to compile it takes longer than these queries.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}

LOCAL_SETTINGS = {
    **SETTINGS,
    # Spark's usual one starts a process for each look at a local file, some seventy in
    # a query of three batches.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
}
"""Where Spark runs on this machine alone; jobs of the cluster have the usual one."""


def as_flags(settings: dict[str, str]) -> list[str]:
    """For `spark-submit`."""
    pairs = (("--conf", f"{name}={value}") for name, value in settings.items())
    return [word for pair in pairs for word in pair]


def table_settings() -> dict[str, str]:
    """What gives Spark Delta, if there are jars."""
    jars = os.environ.get(TABLE_JARS)
    if not jars:
        return {}
    return {
        "spark.jars": ",".join(jars.split(os.pathsep)),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": (
            "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        ),
        # Delta's log of some lines is read by fifty tasks otherwise.
        "spark.databricks.delta.snapshotPartitions": "2",
    }


def submit_arguments() -> str:
    """For the variable PYSPARK_SUBMIT_ARGS, which every session of PySpark reads."""
    settings = {**LOCAL_SETTINGS, **table_settings()}
    return " ".join([*as_flags(settings), "pyspark-shell"])
