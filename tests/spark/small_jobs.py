"""Settings of Spark for jobs of a few rows, in every application that a test starts."""

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


def submit_arguments() -> str:
    """For the variable PYSPARK_SUBMIT_ARGS, which every session of PySpark reads."""
    return " ".join([*as_flags(LOCAL_SETTINGS), "pyspark-shell"])
