"""Checks that what the export of operation logs needs is installed."""

from importlib.util import find_spec

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure


def require_pyarrow() -> None:
    """Raises Failure."""
    if find_spec("pyarrow") is None:
        raise Failure(
            "The operation log is exported with pyarrow, which is not installed. Run "
            "pip install 'twinbus[log]'.",
            exit_codes.USAGE,
        )
