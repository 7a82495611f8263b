"""The drills, a few rounds of each. TWINBUS_DRILL_ROUNDS is how many."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from crash.server_process import environment
from forked_command import FRESH

ROUNDS = int(os.environ.get("TWINBUS_DRILL_ROUNDS", "2"))
_ROOT = Path(__file__).parents[2]
_NO_SERVER = 4

# Other tests run beside these, and have both processors at times. `make drill` on a
# machine of its own has the real limit.
_ANSWER_SECONDS = 30

# Bounds against hanging; never waited out. A drill that gives up by itself tells where.
_START_SECONDS = 180
_ROUND_SECONDS = 120
_DRILL_SECONDS = _START_SECONDS + ROUNDS * _ROUND_SECONDS
_END_SECONDS = 60


_ALIKE = pytest.mark.nightly("the one with stores of both kinds shows the same")


@pytest.mark.timeout(_DRILL_SECONDS + _END_SECONDS)
@pytest.mark.parametrize(
    ("kind", "stores"),
    [
        pytest.param("broker", "sqlite", marks=_ALIKE),
        ("broker", "mixed"),
        ("freeze", "mixed"),
        ("postgres", "postgres"),
        ("standby", "standby"),
    ],
)
def test_nothing_acknowledged_is_lost(kind: str, stores: str) -> None:
    paths = [str(_ROOT / name) for name in ("src", "tests", "")]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "drills", f"--kind={kind}", f"--stores={stores}"),
            *(f"--rounds={ROUNDS}", f"--limit={_ANSWER_SECONDS}"),
        ],
        # A drill starts one supervisor: there is nothing to save.
        env={**environment(), FRESH: "1", "PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode == _NO_SERVER and not os.environ.get("CI"):
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
