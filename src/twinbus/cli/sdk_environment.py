"""The variables by which each SDK finds and trusts the bus of this machine.

The variables for trust replace the authorities of the machine. So they name files that
have both: the authorities of the machine, and that of the bus. For messages, the SDK
for Python reads none of them; it has the argument `connection_verify`.
"""

import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.cli.root_connection import root_connection
from twinbus.cli.server_address import CONNECTION_STRING_VARIABLE
from twinbus.config.config import Config
from twinbus.process.certificates import (
    JAVA_PASSWORD,
    bundle_file,
    java_file,
)

SDK_CONNECTION_STRING: Final = "SERVICEBUS_CONNECTION_STRING"
"""The name in most samples of the vendor."""

_BUNDLES: Final = ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
_JAVA: Final = "JAVA_TOOL_OPTIONS"
_JAVA_STORE: Final = "-Djavax.net.ssl.trustStore"


def sdk_environment(
    config: Config, is_plain: bool, present: Mapping[str, str]
) -> dict[str, str]:
    """All variables; `present` are those of the shell. Raises Failure."""
    connection = root_connection(config, not is_plain, "")["connection_string"]
    assert connection is not None
    found = {SDK_CONNECTION_STRING: connection, CONNECTION_STRING_VARIABLE: connection}
    # With a certificate of your own, clients have to know its authority already.
    if config.tls_port and not config.tls_cert:
        found |= _trust(config, present)
    return found


def _trust(config: Config, present: Mapping[str, str]) -> dict[str, str]:
    bundle, java = _made(bundle_file(config)), _made(java_file(config))
    return {
        **dict.fromkeys(_BUNDLES, bundle),
        _JAVA: _java_options(present.get(_JAVA, ""), java),
    }


def _made(file: Path) -> str:
    if not file.exists():
        raise Failure(
            f"There is no {file}: it is made by `twinbus serve` at a start with TLS. "
            "Start the bus, and name its data folder with --data.",
            exit_codes.USAGE,
        )
    return str(file.absolute())


def _java_options(present: str, store: str) -> str:
    """The present options with our trust store instead of the one they may name."""
    own = (f"{_JAVA_STORE}={store}", f"{_JAVA_STORE}Password={JAVA_PASSWORD}")
    kept = [word for word in _words(present) if not word.startswith(_JAVA_STORE)]
    return " ".join(f'"{word}"' if " " in word else word for word in (*kept, *own))


def _words(options: str) -> list[str]:
    try:
        return shlex.split(options)
    except ValueError:
        return options.split()


def replaced(found: Mapping[str, str], present: Mapping[str, str]) -> Iterator[str]:
    """A line for each variable of the shell that loses its effect."""
    for name in _BUNDLES:
        if name in found and name in present and not _holds(found[name], present[name]):
            yield f"{name} was {present[name]}, which is not trusted any more."
    stores = [w for w in _words(present.get(_JAVA, "")) if w.startswith(_JAVA_STORE)]
    if _JAVA in found and not set(stores) <= set(_words(found[_JAVA])):
        yield f"{_JAVA} named a trust store, which is not used any more."


def _holds(bundle: str, file: str) -> bool:
    """Whether the bundle has everything that the file has."""
    try:
        return Path(file).read_bytes() in Path(bundle).read_bytes()
    except OSError:
        return False


def _fish(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _powershell(text: str) -> str:
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


SHELLS: Final[Mapping[str, tuple[str, Callable[[str], str]]]] = {
    "sh": ("export {}={}", shlex.quote),
    "fish": ("set -gx {} {}", _fish),
    "powershell": ("$env:{} = {}", _powershell),
}
"""For each shell: how it sets a variable, and how it quotes a text."""


def shell_lines(variables: Mapping[str, str], shell: str) -> Iterator[str]:
    """The commands for the shell. Raises Failure."""
    if shell not in SHELLS:
        raise Failure(
            f"--shell is '{shell[:60]}'; it must be {', '.join(SHELLS)}.",
            exit_codes.USAGE,
        )
    form, quoted = SHELLS[shell]
    for name, value in variables.items():
        yield form.format(name, quoted(value))
