"""`python -m bench.instructions TREE`: instructions per message, here and in a tree.

Where others use the machine, a difference of a few per cent in time or CPU drowns. The
number of instructions that a server executes does not depend on them: valgrind's
callgrind counts it (`sudo apt-get install valgrind`). Counted are those of the process
alone, not the kernel's, and a server that is slowed down so much takes larger batches;
so the figures say what changed between trees, not how fast they are. The server's clock
is slowed down as well (`slow_clock.py`). One connection only: with many, what is done
for each of them as time passes would count as well.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.load_client import build_client, run_load
from bench.results import InstructionsResult, origin_of, write_results
from bench.tables import instructions_table
from bench.twinbus_server import TwinbusServer

_MESSAGES = 5000
_ROUNDS = 2
_COUNT = ("--count", str(_MESSAGES), "--timeout", "300")
_PRESETTLED = ("receive", "--settle", "presettled")
_CONFIRMED = ("receive", "--settle", "confirmed")

# Each leaves the queue as the next one needs it; unnamed ones are not counted.
_STEPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("send-256B-1c-w1000", ("send",)),
    ("receive-presettled-256B-1c-w1000", _PRESETTLED),
    ("", ("send",)),
    ("receive-confirmed-256B-1c-w1000", _CONFIRMED),
)


def count_instructions(source: Path | None) -> dict[str, list[int]]:
    """Instructions per message of each case, once for each round."""
    counts: dict[str, list[int]] = {name: [] for name, _ in _STEPS if name}
    with tempfile.TemporaryDirectory() as folder:
        under = (
            *("valgrind", "--tool=callgrind", "--instr-atstart=no"),
            f"--callgrind-out-file={folder}/counted",
        )
        slow = "bench.slow_clock"
        with TwinbusServer(source=source, under=under, module=slow) as server:
            for _, arguments in _STEPS:
                run_load(server.target, [*arguments, *_COUNT], is_tls=False)
            _control(server, "--instr=on")
            for _ in range(_ROUNDS):
                for number, (name, arguments) in enumerate(_STEPS):
                    _control(server, "--zero")
                    run_load(server.target, [*arguments, *_COUNT], is_tls=False)
                    _control(server, f"--dump=step-{number}")
                    if name:
                        counts[name].append(_newest_total(Path(folder)) // _MESSAGES)
    return counts


def _control(server: TwinbusServer, order: str) -> None:
    command = ["callgrind_control", order, str(server.pid)]
    subprocess.run(command, check=True, capture_output=True)


def _newest_total(folder: Path) -> int:
    numbered = folder.glob("counted.*")
    newest = max(numbered, key=lambda file: int(file.suffix.removeprefix(".")))
    found = re.search(r"^(?:totals|summary): (\d+)", newest.read_text(), re.MULTILINE)
    assert found is not None, f"{newest} has no total"
    return int(found[1])


def main() -> int:
    """Run from the command line."""
    options = _parse_options()
    build_client()
    here, there = count_instructions(None), count_instructions(options.tree)
    results = [InstructionsResult(name, here[name], there[name]) for name in here]
    if options.json:
        origin = origin_of("bench.instructions")
        write_results(options.json, origin, instructions=results)
    print(instructions_table(results))
    return 0


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.instructions", description=__doc__
    )
    parser.add_argument("tree", type=Path, help="folder of the other tree")
    parser.add_argument("--json", type=Path, help="write raw results to this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
