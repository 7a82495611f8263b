"""Reader leases as a table for people."""

from collections.abc import Iterable, Mapping
from typing import Any

from twinbus.cli.tables import print_table
from twinbus.instants import instant_of


def print_leases(leases: Iterable[Mapping[str, Any]]) -> None:
    print_table(
        ("entity", "reader", "until"),
        [(lease["path"], lease["reader"], readable_end(lease)) for lease in leases],
    )


def readable_end(lease: Mapping[str, Any]) -> str:
    """When it ends, if it is not renewed."""
    return instant_of(lease["expires_at"]).isoformat(" ", "seconds")
