"""A standalone cluster of Spark on this machine, from the PySpark package: one master
and two workers with a core each, in folders of their own.

The workers seem to be on two machines, since Spark never runs a copy of a task on the
host of its first attempt. Executors run a bare Python, with pyarrow and nothing else of
what is installed here: what they need besides must come with the job.
"""

import os
import re
import subprocess
import sys
import time
import venv
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow
import pyspark

from .small_jobs import SETTINGS, as_flags

SPARK_HOME = Path(pyspark.__file__).parent

# A bound against hanging; never waited out.
PATIENCE_SECONDS = 200.0


class StandaloneCluster:
    """Runs from entering to leaving; all its processes are ended then, by their ids."""

    def __init__(self, folder: Path, worker_count: int = 2) -> None:
        self._folder = folder
        self._worker_count = worker_count
        self._processes: list[subprocess.Popen[bytes]] = []
        self.python = bare_python(folder / "python")
        assert_has_no_twinbus(self.python)
        self.url = ""

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def _start(self) -> None:
        master = self._run("master", "org.apache.spark.deploy.master.Master")
        self.url = self._said(master, r"Starting Spark master at (spark://\S+)")
        workers = [self._start_worker(number) for number in range(self._worker_count)]
        for worker in workers:
            self._said(worker, r"(Successfully registered with master)")

    def _start_worker(self, number: int) -> Path:
        host = "localhost" if number % 2 else "127.0.0.1"
        options = ("--host", host, "--cores", "1", "--memory", "1g")
        options += ("--work-dir", str(self.work_folder(number)), self.url)
        main_class = "org.apache.spark.deploy.worker.Worker"
        return self._run(f"worker{number}", main_class, *options)

    def work_folder(self, worker: int) -> Path:
        return self._folder / f"work{worker}"

    def submit(self, program: Path, *arguments: str, package: Path) -> str:
        """Run a program on the cluster to its end; what it printed."""
        command = [
            *(str(SPARK_HOME / "bin" / "spark-submit"), "--master", self.url),
            *("--py-files", str(package)),
            *self.settings(),
            *(str(program), *arguments),
        ]
        # What is shipped reaches executors; the driver's own workers look here.
        return self.run(command, PYTHONPATH=str(package))

    def settings(self) -> list[str]:
        """Of a job for this cluster, as flags."""
        settings = {
            **SETTINGS,
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.ui.enabled": "false",
            "spark.local.dir": str(self._folder / "local"),
            "spark.sql.warehouse.dir": str(self._folder / "warehouse"),
        }
        return as_flags(settings)

    def run(self, command: list[str], **variables: str) -> str:
        """Run what submits a job, to its end; what it printed."""
        # Not as a setting: Spark heeds that only in part.
        python = {"PYSPARK_PYTHON": str(self.python)}
        done = subprocess.run(
            command,
            cwd=self._folder,
            env={**environment(), **python, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-4000:]}"
        return done.stdout

    def _run(self, name: str, main_class: str, *arguments: str) -> Path:
        """Start a part of the cluster, on ports that are free; its log."""
        command = [str(SPARK_HOME / "bin" / "spark-class"), main_class]
        command += ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        log = self._folder / f"{name}.log"
        with log.open("w") as output:
            # The script becomes the JVM: its id is the JVM's.
            process = subprocess.Popen(
                [*command, *arguments],
                cwd=self._folder,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self._processes.append(process)
        return log

    def _said(self, log: Path, pattern: str) -> str:
        """What a part says in its log, once it does."""
        ends_at = time.monotonic() + PATIENCE_SECONDS
        while True:
            ended = any(process.poll() is not None for process in self._processes)
            found = re.search(pattern, log.read_text())
            if found:
                return found[1]
            assert not ended and time.monotonic() < ends_at, log.read_text()
            time.sleep(0.05)

    def _stop(self) -> None:
        # Workers first: they end their executors.
        for process in reversed(self._processes):
            process.terminate()
            try:
                process.wait(PATIENCE_SECONDS)
            finally:
                process.kill()


def environment() -> dict[str, str]:
    """What Java needs, and nothing of ours: what is found was brought along."""
    kept = {
        name: os.environ[name]
        for name in ("PATH", "JAVA_HOME", "JDK_JAVA_OPTIONS")
        if name in os.environ
    }
    return {
        **kept,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def bare_python(folder: Path) -> Path:
    """A Python of our version that has pyarrow installed, and nothing else."""
    venv.create(folder, with_pip=False)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    installed = folder / "lib" / version / "site-packages"
    there = Path(pyarrow.__file__).parent
    for part in (there, *there.parent.glob("pyarrow.libs")):
        (installed / part.name).symlink_to(part)
    return folder / "bin" / "python"


def assert_has_no_twinbus(python: Path) -> None:
    for module in ("twinbus", "pyspark_servicebus"):
        done = subprocess.run([python, "-c", f"import {module}"], capture_output=True)
        assert b"ModuleNotFoundError" in done.stderr, done.stderr
