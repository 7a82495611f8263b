"""S2: a capture that is killed at any point leaves each message in the lake once."""

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from .application import Application
from .harness import numbered
from .lakes import LakeTest
from .served import served

JOB = Path(__file__).with_name("capture_job.py")
MESSAGES = 1_000
KILLS = int(os.environ.get("TWINBUS_CAPTURE_KILLS", "2"))
"""Each kill is some steps further into a batch."""


@pytest.mark.timeout(300 * (KILLS + 2))
def test_an_application_that_is_killed_captures_each_message_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    with served(tmp_path, "orders") as (_, namespace):
        sent = numbered("o", range(MESSAGES))
        namespace.append([("orders", body) for body in sent])
        world = LakeTest(spark, namespace, tmp_path / "lake")
        for kill in range(KILLS):
            # The first run also makes the lake. Steps of a batch: note, move,
            # manifest, coverage, end of the note, end of staging. A run that goes on
            # with a batch of a killed one may have a step less to do.
            step = 2 + 2 * kill % 7
            sign = tmp_path / f"reached-{kill}"
            application = Application(
                tmp_path,
                str(JOB),
                *(str(world.folder), namespace.credential, "orders"),
                *(str(step), str(sign)),
            )
            application.kill_when(sign.exists)
        world.capture("orders", consumes=True, max_messages=200)
        assert sorted(world.bodies()) == sorted(sent)
        assert world.manifest_count() == MESSAGES
        named = [world.lake.manifest(hour).files() for hour in world.lake.hours()]
        assert len(world.files()) == sum(len(files) for files in named)
        assert namespace.peek("orders") == []
