"""Settings of Spark for jobs of a few rows, in every application that a test starts."""

SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    # To make Java code for a query and to compile it takes longer than these queries.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def as_flags(settings: dict[str, str]) -> list[str]:
    """For `spark-submit`."""
    pairs = (("--conf", f"{name}={value}") for name, value in settings.items())
    return [word for pair in pairs for word in pair]


def submit_arguments() -> str:
    """For the variable PYSPARK_SUBMIT_ARGS, which every session of PySpark reads."""
    return " ".join([*as_flags(SETTINGS), "pyspark-shell"])
