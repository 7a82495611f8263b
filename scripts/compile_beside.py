"""`python scripts/compile_beside.py PID`: compile while the process PID runs.

It returns at once; the compilation goes on at the lowest priority, in a process group
of its own, so that Ctrl-C in the terminal of PID does not reach it. It ends when it is
done, or when PID ends: then nothing of it is used but the parts that were compiled,
which need not be compiled again. It says nothing, unless compiling fails.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

LOG = Path("build/native.log")

# How soon it ends after PID.
POLL_SECONDS = 0.5

_LOWEST_PRIORITY = 19


def compile_beside(process_id: int) -> None:
    """Run `setup.py native` to its end, or to that of the process."""
    os.setsid()
    os.nice(_LOWEST_PRIORITY)
    LOG.parent.mkdir(exist_ok=True)
    with LOG.open("w") as log:
        command = [sys.executable, "setup.py", "--quiet", "native"]
        work = subprocess.Popen(command, stdout=log, stderr=log)
    while work.poll() is None:
        if not _is_running(process_id):
            # This process, the compilation, and the C compilers it started.
            os.killpg(os.getpgrp(), signal.SIGTERM)
        try:
            work.wait(POLL_SECONDS)
        except subprocess.TimeoutExpired:
            continue
    if work.returncode != 0:
        print(f"Compiling failed, this bus stays plain Python: see {LOG}", flush=True)


def _is_running(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


def main() -> int:
    """Run from the command line."""
    # The new process is not a child of PID, which does not expect one.
    if os.fork() == 0:
        compile_beside(int(sys.argv[1]))
        os._exit(0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
