"""The page about surviving the loss of a machine, run as it is printed.

Two PostgreSQL servers, made by the page's commands, and a bus with the page's URL. The
primary is killed while a client sends; then the page goes on. The numbers of the ports
are the only change.
"""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from brokers.processes import Brokers, until
from brokers.sending import AcknowledgedSends
from crash import messages

from bench.free_port import free_port
from bench.postgres_server import NOBODY, PostgresMissing, programs

from .pages import Block, programs_of
from .test_blocks import SURVIVING

_PATIENCE_SECONDS = 60.0
_PORTS = ("5441", "5442")


class Machines:
    """A folder in which the page's commands are run, by a user that is not root."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._user = NOBODY if os.geteuid() == 0 else None
        if self._user is not None:
            os.chown(folder, self._user, self._user)
        self._out = (folder / "out").open("ab")
        self._ports = {port: str(free_port()) for port in _PORTS}

    def with_ports(self, text: str) -> str:
        for printed, port in self._ports.items():
            text = text.replace(printed, port)
        return text

    def run(self, block: Block) -> None:
        path = f"{programs()}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self.with_ports(block.text)],
            cwd=self.folder,
            env={**os.environ, "PATH": path},
            user=self._user,
            group=self._user,
            extra_groups=None if self._user is None else [],
            stdin=subprocess.DEVNULL,
            # A server that is started keeps what it inherits.
            stdout=self._out,
            stderr=subprocess.STDOUT,
            timeout=_PATIENCE_SECONDS,
        )
        said = (self.folder / "out").read_text()
        assert done.returncode == 0, f"{block.place}: {said}"

    def close(self) -> None:
        for server in ("db1", "db2"):
            self.kill(server)
        self._out.close()
        shutil.rmtree(self.folder)

    def kill(self, server: str) -> None:
        """As a machine that is lost: `kill -9` of all its processes."""
        file = self.folder / server / "postmaster.pid"
        if not file.exists():
            return
        pid = int(file.read_text().split()[0])
        children = Path(f"/proc/{pid}/task/{pid}/children")
        pids = [pid]
        if children.exists():
            pids += map(int, children.read_text().split())
        for one in pids:
            try:
                os.kill(one, signal.SIGKILL)
            except ProcessLookupError:
                continue


@pytest.fixture
def machines() -> Iterator[Machines]:
    try:
        programs()
    except PostgresMissing as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))
    folder = Path(tempfile.mkdtemp(prefix="machines-"))
    made = Machines(folder)
    yield made
    made.close()


def _url() -> str:
    [url] = re.findall(r'twinbus serve .*--store "([^"]+)"', SURVIVING.read_text())
    return str(url)


@pytest.mark.timeout(300)
async def test_page_about_surviving_a_machine_runs_as_printed(
    machines: Machines, tmp_path: Path
) -> None:
    first, standby, synchronous, promote, again = programs_of(SURVIVING)
    for block in (first, standby, synchronous):
        await asyncio.to_thread(machines.run, block)
    url = machines.with_ports(_url())
    with Brokers(tmp_path, (), [url]) as brokers:
        (tmp_path / "bus.toml").write_text("[queues.q]\n")
        await brokers.start("--brokers=2", "--config=bus.toml")
        sends = AcknowledgedSends(brokers, "q", 200)
        sending = asyncio.create_task(sends.run())
        await sends.have_more(50)
        machines.kill("db1")
        await asyncio.to_thread(machines.run, promote)
        await sends.have_more(50)
        await asyncio.to_thread(machines.run, again)
        await sends.have_more(50)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)

        async def are_all_there() -> bool:
            async with await brokers.connect_to_any() as connection:
                found = await messages.peek_all(connection, "q")
            return sends.names <= {one.name for one in found}

        await until(are_all_there, 10)
