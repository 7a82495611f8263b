"""Takes a new certificate into use while the server runs.

Files that were given (`tls_cert`, `tls_key`) are read again when they change, and when
somebody asks. Whoever renews them may write one after the other, so a change counts
when nothing has changed for a moment. A certificate of our own is renewed before it
ends; for that it is looked at once a day.

Connections keep the certificate of their handshake. If the new one cannot be used, the
old one stays, and the log says what is wrong with which file.
"""

import asyncio
import logging
import os
import ssl
from typing import Final, Protocol

from twinbus.clock import Clock
from twinbus.config.config import Config, ConfigError
from twinbus.process.certificates import expiry_warning, tls_context

_log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 2.0
"""Between two looks at the files; a change is in use after two of them."""

_DAY_MS: Final = 86_400_000

_State = tuple[object, ...]


class TlsHolder(Protocol):
    """Whoever shows the certificate: the server."""

    tls: ssl.SSLContext | None


class CertificateReload:
    """Of one server."""

    def __init__(self, holder: TlsHolder, config: Config, clock: Clock) -> None:
        """`config` has the ports that the server really has."""
        self._holder = holder
        self._config = config
        self._clock = clock
        # What the files looked like when they were read, and at the last look.
        self._read_state = self._last_state = self._state()

    async def watch(self) -> None:
        """Look again and again, until it is cancelled."""
        while self._holder.tls is not None:
            await asyncio.sleep(_LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Read the files again if they have changed, and are not being changed."""
        state = self._state()
        is_still = state == self._last_state
        self._last_state = state
        if is_still and state != self._read_state:
            self.reload()

    def reload(self) -> None:
        """Read the files again."""
        if self._holder.tls is None:
            _log.warning("there is no TLS, so no certificate is read: see tls_port")
            return
        self._read_state, now = self._state(), self._clock.now()
        try:
            # A context of its own: one that is in use could be left without a key.
            self._holder.tls = tls_context(self._config, now)
        except ConfigError as wrong:
            _log.error("the certificate in use is kept. %s", wrong)
            return
        _log.info("the certificate was read again, and new connections get it")
        if warning := expiry_warning(self._config, now):
            _log.warning("%s", warning)

    def _state(self) -> _State:
        """Changes when the certificate has to be read again."""
        config = self._config
        if not config.tls_cert:
            return (self._clock.now() // _DAY_MS,)
        return (_file_state(config.tls_cert), _file_state(config.tls_key))


def _file_state(path: str) -> _State | None:
    """Of the file that a link leads to; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)
