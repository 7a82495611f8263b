"""Which engine a syphon runs on: ours between two twinbus namespaces, else the SDK's.

The SDK is an extra, and imported only where it is needed.
"""

import ssl
from typing import Any

from twinbus.client.address import NamespaceAddress, parse_address
from twinbus.client.errors import ClientError
from twinbus.clock import Clock
from twinbus.pairing.errors import PairingError
from twinbus.pairing.own.engine import is_twinbus, own_engine
from twinbus.pairing.syphon.errors import PrimaryAway, SecondaryError
from twinbus.pairing.syphon.ports import Engine


class SdkMissing(PairingError):
    """A namespace is not twinbus, and azure-servicebus is not installed."""


async def engine_of_strings(
    primary: str,
    secondary: str,
    clock: Clock,
    secondary_name: str | None = None,
    authority: str | None = None,
) -> Engine[Any]:
    """The engine between the namespaces of two connection strings; `authority` is a
    file with the certificates to trust at the secondary.

    Raises ValueError for a connection string that cannot be used, PrimaryAway and
    SecondaryError for namespaces that do not answer, and SdkMissing.
    """
    ours = parse_address(primary, clock=clock)
    tls = ssl.create_default_context(cafile=authority) if authority else None
    theirs = parse_address(secondary, clock=clock, tls=tls)
    if await speak_twinbus(ours, theirs):
        return own_engine(ours, theirs, clock, secondary_name)
    try:
        from twinbus.pairing.sdk_syphon.engine import sdk_engine_of_strings
    except ImportError:
        raise SdkMissing(
            "A namespace that is not twinbus needs the package azure-servicebus: pip "
            "install 'twinbus[pairing]'."
        ) from None
    return sdk_engine_of_strings(primary, secondary, clock, secondary_name, authority)


async def engine_of_clients(
    primary: Any, secondary: Any, administration: Any, clock: Clock
) -> Engine[Any]:
    """The engine between the namespaces of two clients of the SDK, synchronous or
    asynchronous. The clients stay open. Raises PrimaryAway and SecondaryError."""
    from twinbus.pairing.sdk_syphon.addresses import address_of
    from twinbus.pairing.sdk_syphon.engine import sdk_engine
    from twinbus.pairing.sdk_syphon.listing import AdministeredListing

    ours, theirs = address_of(primary, clock), address_of(secondary, clock)
    if ours is not None and theirs is not None and await speak_twinbus(ours, theirs):
        # The key of the messaging client need not have the Manage right.
        listing = AdministeredListing(administration)
        return own_engine(ours, theirs, clock, listing=listing)
    return sdk_engine(primary, secondary, administration, clock)


async def speak_twinbus(primary: NamespaceAddress, secondary: NamespaceAddress) -> bool:
    """Whether both namespaces are twinbus. Raises PrimaryAway and SecondaryError."""
    try:
        is_secondary = await is_twinbus(secondary)
    except (OSError, TimeoutError, ClientError) as error:
        text = f"The secondary {secondary.text} cannot be reached: {error}"
        raise SecondaryError(text) from None
    try:
        return is_secondary and await is_twinbus(primary)
    except (OSError, TimeoutError, ClientError) as error:
        text = f"The primary {primary.text} cannot be reached: {error}"
        raise PrimaryAway(text) from None
