"""The variables by which each SDK finds and trusts the bus of this machine.

Those that name what is to be trusted replace what a client trusts otherwise, so they
name the files that hold the machine's roots, too. The SDK for Python reads none of them
for messages: its `connection_verify` takes the path.
"""

import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.cli.root_connection import root_connection
from twinbus.cli.server_address import CONNECTION_STRING_VARIABLE
from twinbus.config import Config
from twinbus.process.certificates import (
    JAVA_PASSWORD,
    bundle_file,
    java_file,
)

SDK_CONNECTION_STRING: Final = "SERVICEBUS_CONNECTION_STRING"
"""As most of the vendor's samples call it."""

_BUNDLES: Final = ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
_JAVA: Final = "JAVA_TOOL_OPTIONS"
_JAVA_STORE: Final = "-Djavax.net.ssl.trustStore"


def sdk_environment(
    config: Config, is_plain: bool, present: Mapping[str, str]
) -> dict[str, str]:
    """All variables; `present` are those there are already. Raises Failure."""
    connection = root_connection(config, not is_plain, "")["connection_string"]
    assert connection is not None
    found = {SDK_CONNECTION_STRING: connection, CONNECTION_STRING_VARIABLE: connection}
    # A certificate that was brought is trusted by whoever knows its authority.
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
    """The options that there are, without the trust store that they may name."""
    own = (f"{_JAVA_STORE}={store}", f"{_JAVA_STORE}Password={JAVA_PASSWORD}")
    kept = [word for word in _words(present) if not word.startswith(_JAVA_STORE)]
    return " ".join(f'"{word}"' if " " in word else word for word in (*kept, *own))


def _words(options: str) -> list[str]:
    try:
        return shlex.split(options)
    except ValueError:
        return options.split()


def replaced(found: Mapping[str, str], present: Mapping[str, str]) -> Iterator[str]:
    """What of the shell's own will not hold any more: a line each."""
    for name in _BUNDLES:
        if name in found and name in present and not _holds(found[name], present[name]):
            yield f"{name} was {present[name]}, which is not trusted any more."
    stores = [w for w in _words(present.get(_JAVA, "")) if w.startswith(_JAVA_STORE)]
    if _JAVA in found and not set(stores) <= set(_words(found[_JAVA])):
        yield f"{_JAVA} named a trust store, which is not used any more."


def _holds(bundle: str, file: str) -> bool:
    """Whether all that the file says is in the bundle, too."""
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
"""How each sets a variable, and writes a text as it stands."""


def shell_lines(variables: Mapping[str, str], shell: str) -> Iterator[str]:
    """What the shell is to run. Raises Failure."""
    if shell not in SHELLS:
        raise Failure(
            f"--shell is '{shell[:60]}'; it must be {', '.join(SHELLS)}.",
            exit_codes.USAGE,
        )
    form, quoted = SHELLS[shell]
    for name, value in variables.items():
        yield form.format(name, quoted(value))
