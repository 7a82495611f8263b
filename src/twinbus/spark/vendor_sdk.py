"""The vendor's SDK, which is an extra: only namespaces that are not twinbus need it."""

from typing import Final

from twinbus.spark.plain_error import PlainError

_OLDEST: Final = (7, 15)
"""The first that browses and defers without receiving."""


class VendorSdkMissing(PlainError):
    """A namespace is not twinbus, and this Python has no SDK for it."""


def require_sdk() -> None:
    """Raises SdkMissing."""
    try:
        from azure.servicebus import __version__ as version
    except ImportError:
        version = ""
    if _numbers(version) < _OLDEST:
        found = f"azure-servicebus {version}" if version else "none"
        raise VendorSdkMissing(
            "A namespace that is not twinbus, or is strict, needs the package "
            f"azure-servicebus, 7.15 or later, and there is {found} on this host: pip "
            "install 'twinbus[spark-amqp]', on the driver and on every executor."
        )


def _numbers(version: str) -> tuple[int, ...]:
    """Major and minor: what follows may be more than numbers."""
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
