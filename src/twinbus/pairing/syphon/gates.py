"""Which entities of the primary take messages: a gate each, shared by all workers.

A gate is open until a restore fails. Closed, it is tried again after one second, then
after twice as long each time, up to a minute; one worker tries, with one message, and
the others wait for what it finds. Entities that do not exist get a grace.

Pure: told the time, by a clock that never goes back.
"""

from typing import Final, final

from twinbus.pairing.syphon.ports import RestoreRefusal
from twinbus.pairing.syphon.settings import SyphonSettings
from twinbus.pairing.syphon.treatments import CREDENTIALS, TREATMENTS, Treatment

_GROWTH: Final = 2


@final
class Gate:
    """The way into one entity, or into the primary as a whole."""

    def __init__(self, settings: SyphonSettings) -> None:
        self._settings = settings
        # Why it is closed; None while it is open.
        self.refusal: RestoreRefusal | None = None
        self.retry_at = 0
        self._interval_ms = 0
        # Since when the entity is known not to exist.
        self._missing_since: int | None = None
        # A worker tries it just now.
        self._is_probed = False

    @property
    def is_open(self) -> bool:
        return self.refusal is None

    def close(self, refusal: RestoreRefusal, now: int) -> bool:
        """A restore failed. Returns whether that is news: it was open, or closed for
        another kind of reason."""
        is_news = self.refusal is None or self.refusal.kind is not refusal.kind
        # Several workers may fail at the same time; that is one failure.
        if self.refusal is None or self._is_probed or now >= self.retry_at:
            self._interval_ms = min(
                max(self._interval_ms * _GROWTH, self._settings.first_probe_ms),
                self._settings.last_probe_ms,
            )
            self.retry_at = now + self._interval_ms
        treatment = TREATMENTS[refusal.kind]
        if treatment is Treatment.WAIT:
            self.retry_at = max(self.retry_at, now + self._settings.busy_wait_ms)
        if treatment is not Treatment.GRACE:
            self._missing_since = None
        elif self._missing_since is None:
            self._missing_since = now
        self.refusal = refusal
        self._is_probed = False
        return is_news

    def open(self) -> bool:
        """A restore succeeded. Returns whether the gate was closed."""
        was_closed = self.refusal is not None
        self.refusal = None
        self._interval_ms = 0
        self._missing_since = None
        self._is_probed = False
        return was_closed

    def may_probe(self, now: int) -> bool:
        return not self.is_open and not self._is_probed and now >= self.retry_at

    def probe(self) -> None:
        """Somebody tries it now, and will `open`, `close` or `leave` it."""
        assert not self._is_probed
        self._is_probed = True

    def leave(self, now: int) -> None:
        """The try has ended. If it told nothing, because there was no message to try,
        the next one is as far away as this one was."""
        self._is_probed = False
        if self.retry_at <= now:
            self.retry_at = now + max(self._interval_ms, self._settings.first_probe_ms)

    def is_given_up(self, now: int) -> bool:
        """The entity has not existed for longer than the grace."""
        since = self._missing_since
        return (
            since is not None and now - since >= self._settings.missing_entity_grace_ms
        )


@final
class Gates:
    """The gates of all entities that ever failed."""

    def __init__(self, settings: SyphonSettings) -> None:
        self._settings = settings
        self._gates: dict[str, Gate] = {}

    def of(self, path: str) -> Gate:
        """The gate of an entity; letter case does not matter."""
        key = path.lower()
        gate = self._gates.get(key)
        if gate is None:
            gate = self._gates[key] = Gate(self._settings)
        return gate

    def complaints(self) -> tuple[str, ...]:
        """Entities that somebody has to give us a right to, for people."""
        return tuple(
            f"'{path}' on the primary: {gate.refusal.text}"
            for path, gate in sorted(self._gates.items())
            if gate.refusal is not None and gate.refusal.kind in CREDENTIALS
        )

    def closed(self) -> list[str]:
        return [path for path, gate in self._gates.items() if not gate.is_open]
