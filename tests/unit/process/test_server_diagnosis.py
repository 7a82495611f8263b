"""Early diagnoses of a broker that goes on do not push out others."""

import asyncio
from pathlib import Path

from twinbus.config.config import Config
from twinbus.process.server_diagnosis import ASKED_FOR, ServerDiagnosis
from twinbus.testing.clock import ManualClock


async def test_only_the_last_early_one_is_kept(tmp_path: Path) -> None:
    clock = ManualClock()
    config = Config(data=tmp_path, max_diagnoses=2)
    diagnosis = ServerDiagnosis(config, lambda: [], clock, [], lambda: [])
    diagnosis.loop = asyncio.get_running_loop()
    wanted = diagnosis.write(ASKED_FOR)
    for _ in range(3):
        clock.advance(1)
        diagnosis.write_early()
    first, second = sorted((tmp_path / "diagnosis").iterdir())
    assert first == wanted
    assert second.name.endswith("-silent")
