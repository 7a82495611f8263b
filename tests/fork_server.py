"""Gives birth to processes of the command `twinbus` that need not import it.

    python -P tests/fork_server.py DESCRIPTOR

To start Python and to import a server takes most of a second of the processor, and
tests start more than a thousand. So this process imports everything once. At the
socket with this descriptor it is sent the descriptors of `forked_command.py`; for each
message it forks a child, which then is in all respects a command that was just started:
arguments, environment, folder, standard streams, signals, and the end of its
interpreter. The end of the socket is the end of this process; its children go on.
"""

import gc
import importlib
import io
import json
import os
import pkgutil
import selectors
import signal
import socket
import sys
import time
from contextlib import redirect_stdout, suppress

import twinbus.cli
from twinbus.cli import main as command

# From the test to the child: the request, the standard streams, and where to write the
# status that the system gives for a child that ended.
DESCRIPTORS = 5


class ForkServer:
    """Forks children, and tells how they ended."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        # By process id, where its status goes.
        self._statuses: dict[int, int] = {}
        self._woken, self._wake = os.pipe()
        for end in (self._woken, self._wake):
            os.set_blocking(end, False)

    def serve(self) -> int | None:
        """Returns in each child, with the descriptor of its request; here, with None
        when nobody will ask any more."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, _do_nothing)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        with selectors.DefaultSelector() as selector:
            selector.register(self._control, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in selector.select()}
                if self._woken in ready:
                    os.read(self._woken, 4096)
                    self._tell_ends()
                if self._control in ready:
                    _, given, *_ = socket.recv_fds(self._control, 1, DESCRIPTORS)
                    if not given:
                        return None
                    if self._fork(given):
                        break
        self._forget()
        return given[0]

    def _fork(self, given: list[int]) -> bool:
        """True in the child."""
        *streams, status = given
        pid = os.fork()
        if pid == 0:
            for number, stream in enumerate(streams[1:]):
                os.dup2(stream, number)
                os.close(stream)
            os.close(status)
            return True
        for stream in streams:
            os.close(stream)
        self._statuses[pid] = status
        self._control.sendall(pid.to_bytes(8))
        return False

    def _tell_ends(self) -> None:
        while self._statuses:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            code = os.waitstatus_to_exitcode(status)
            end = self._statuses.pop(pid)
            # If the pipe is broken, nobody waits for it any more.
            with suppress(BrokenPipeError):
                os.write(end, code.to_bytes(4, signed=True))
            os.close(end)

    def _forget(self) -> None:
        """In a child: what belongs to the server."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._control.close()
        for descriptor in (self._woken, self._wake, *self._statuses.values()):
            os.close(descriptor)


def _do_nothing(*_: object) -> None:
    """A signal with a handler of its own wakes the selector."""


def import_commands() -> None:
    """All that commands import, and what typer imports to run one."""
    for module in pkgutil.iter_modules(twinbus.cli.__path__, "twinbus.cli."):
        importlib.import_module(module.name)
    with redirect_stdout(io.StringIO()):
        command.run(["--version"])
    # Children look for garbage among their own objects only.
    gc.collect()
    gc.freeze()


def become(request: int) -> None:
    """This child is the command that is asked for."""
    with open(request, "rb") as file:
        wanted = json.loads(file.read())
    os.environ.clear()
    os.environ.update(wanted["environment"])
    time.tzset()
    os.chdir(wanted["folder"])
    # As `python -m` does.
    sys.path.insert(0, wanted["folder"])
    sys.argv = [str(command.__file__), *wanted["arguments"]]
    sys.stdin = open(0, closefd=False)
    sys.stdout = open(1, "w", closefd=False)
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)


def main(control: socket.socket) -> None:
    import_commands()
    request = ForkServer(control).serve()
    if request is not None:
        become(request)
        command.main()


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
