"""What the URL of a PostgreSQL store or catalog says.

    postgresql://USER@HOST,HOST/DATABASE?schema=NAME&...

Options of ours are taken out; the rest is libpq's and goes to it as it is (several
hosts, `target_session_attrs`, `sslmode`, ...). The password is in what libpq gets and
nowhere else: not in `location`, not in an error, not in a representation.
"""

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode

from twinbus.store.base import StoreError

SCHEMES: Final = ("postgresql", "postgres")

LEASE_MS: Final = 6_000
"""Renewed every second, so five renewals may fail. A takeover waits for so long."""

_SHORTEST_LEASE_MS: Final = 1_000
_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,55}")
"""Lower case, so that it needs no quotes; short, so that names of segments fit."""

_SYNCHRONOUS: Final = ("on", "off", "local", "remote_write", "remote_apply")
_SECRETS: Final = ("password", "sslpassword", "oauth_client_secret")


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresUrl:
    """Where a store or a catalog is, and how it is used."""

    # With the password.
    conninfo: str = field(repr=False)
    # Without it, for people.
    location: str
    schema: str
    lease_ms: int = LEASE_MS
    # What the user asked for; None: whatever the server does, if it is safe.
    synchronous_commit: str | None = None
    # How large the schema may become; 0: as large as the server's disk.
    max_bytes: int = 0


def parse_postgres_url(url: str, default_schema: str) -> PostgresUrl:
    """Raises StoreError, which shows the URL without its password."""
    head, _, query = url.partition("?")
    scheme, _, rest = head.partition("://")
    shown = _without_password(rest)
    if scheme.lower() not in SCHEMES or not rest.strip("/"):
        raise StoreError(
            f"'{scheme}://{shown}' names no database. "
            "Write postgresql://USER@HOST/DATABASE?schema=NAME."
        )
    options = dict(parse_qsl(query, keep_blank_values=True))
    schema = _schema(options.pop("schema", default_schema))
    lease_ms = _lease(options.pop("lease_ms", str(LEASE_MS)))
    synchronous = _synchronous_commit(options.pop("synchronous_commit", None))
    max_bytes = _whole("max_megabytes", options.pop("max_megabytes", "0")) << 20
    visible = {name: text for name, text in options.items() if name not in _SECRETS}
    return PostgresUrl(
        conninfo=f"postgresql://{rest}" + (f"?{_encoded(options)}" if options else ""),
        location=f"postgresql://{shown}?{_encoded(visible | {'schema': schema})}",
        schema=schema,
        lease_ms=lease_ms,
        synchronous_commit=synchronous,
        max_bytes=max_bytes,
    )


def _encoded(options: dict[str, str]) -> str:
    return urlencode(options, quote_via=quote, safe="/,:")


def _without_password(rest: str) -> str:
    """Of USER:PASSWORD@HOST/DATABASE. A password may have an @ or a / of its own, if
    whoever wrote it did not know better."""
    user, at, rest = rest.rpartition("@")
    return f"{user.partition(':')[0]}{at}{rest}"


# --- options of ours ------------------------------------------------------------------


def _schema(value: str) -> str:
    name = unquote(value)
    if not _SCHEMA.fullmatch(name) or name.startswith("pg_"):
        raise StoreError(
            f"schema={value}: a schema is named by at most 56 lower-case letters, "
            "digits and underscores, and not pg_*."
        )
    return name


def _lease(value: str) -> int:
    lease_ms = _whole("lease_ms", value)
    if lease_ms < _SHORTEST_LEASE_MS:
        raise StoreError(
            f"lease_ms={value}: a lease lasts at least {_SHORTEST_LEASE_MS} ms; a busy "
            f"server would not renew it in time. Usual are {LEASE_MS}."
        )
    return lease_ms


def _synchronous_commit(value: str | None) -> str | None:
    if value is not None and value not in _SYNCHRONOUS:
        raise StoreError(
            f"synchronous_commit={value}: must be one of {', '.join(_SYNCHRONOUS)}."
        )
    return value


def _whole(name: str, value: str) -> int:
    if not value.isdecimal() or len(value) > 12:
        raise StoreError(f"{name}={value}: must be a whole number.")
    return int(value)
