"""Which entities of the primary take messages: each has a gate, shared by all workers.

A gate is open until a restore fails. A closed gate is tried again after one second,
then after twice as long each time, up to a minute. One worker tries it with one
message, and the others wait for the result. Entities that do not exist get a grace.

Pure: the time, of a clock that never goes back, is an argument.
"""

from typing import Final, final

from twinbus.pairing.syphon.ports import RestoreRefusal
from twinbus.pairing.syphon.settings import SyphonSettings
from twinbus.pairing.syphon.treatments import CREDENTIALS, TREATMENTS, Treatment

_GROWTH: Final = 2


@final
class Gate:
    """Whether one entity, or the whole primary, takes messages."""

    def __init__(self, settings: SyphonSettings) -> None:
        self._settings = settings
        # Why it is closed; None while it is open.
        self.refusal: RestoreRefusal | None = None
        self.retry_at = 0
        self._interval_ms = 0
        # Since when the entity is known not to exist.
        self._missing_since: int | None = None
        # Whether a worker is trying it now.
        self._is_probed = False

    @property
    def is_open(self) -> bool:
        return self.refusal is None

    def close(self, refusal: RestoreRefusal, now: int) -> bool:
        """A restore failed. Returns whether that is news: the gate was open, or closed
        for a reason of another kind."""
        is_news = self.refusal is None or self.refusal.kind is not refusal.kind
        # Several workers may fail at the same time; that counts once.
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
        """A worker tries it now; it will call `open`, `close` or `leave`."""
        assert not self._is_probed
        self._is_probed = True

    def leave(self, now: int) -> None:
        """The attempt has ended. If there was no message to try, the next attempt is
        made after the same time again."""
        self._is_probed = False
        if self.retry_at <= now:
            self.retry_at = now + max(self._interval_ms, self._settings.first_probe_ms)

    def is_given_up(self, now: int) -> bool:
        """Whether the entity has been missing for longer than the grace."""
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
        """Entities that the syphon has no right to send to, as texts."""
        return tuple(
            f"'{path}' on the primary: {gate.refusal.text}"
            for path, gate in sorted(self._gates.items())
            if gate.refusal is not None and gate.refusal.kind in CREDENTIALS
        )

    def closed(self) -> list[str]:
        return [path for path, gate in self._gates.items() if not gate.is_open]
