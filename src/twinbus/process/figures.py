"""The figures of the server for `GET /metrics`.

They are read from existing counters. No fragment is loaded for it.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace

from twinbus import __version__, compilation
from twinbus.broker.fragment import MAIN
from twinbus.clock import Clock
from twinbus.doors.http.bus_metrics import (
    EntityFigures,
    EntityName,
    LeaseFigures,
    ProcessFigures,
    StoreFigures,
)
from twinbus.entities.entity import Entity
from twinbus.entities.namespace import Namespace
from twinbus.entities.namespaces import Namespaces
from twinbus.errors import STORE_IS_FULL
from twinbus.owner.owners import Owners
from twinbus.owner.store_health import StoreReport, report_of


class ServerFigures:
    """Collects the figures of a server."""

    def __init__(
        self,
        namespaces: Namespaces,
        owners: Owners,
        clock: Clock,
        connection_count: Callable[[], int],
        *,
        is_strict: bool,
    ) -> None:
        self._namespaces = namespaces
        # The one whose clients ask. Only those of the default one see others.
        self._asking = namespaces.default
        self._owners = owners
        self._clock = clock
        self._connection_count = connection_count
        self._is_strict = is_strict
        self._started_at = clock.now()

    def seen_from(self, namespace: Namespace) -> "ServerFigures":
        """The figures for those who have a key of this namespace."""
        seen = copy(self)
        seen._asking = namespace
        return seen

    def process_figures(self) -> ProcessFigures:
        now = self._clock.now()
        refusals = {
            owner.refusal for owner in self._owners if now < owner.refuses_until
        }
        return ProcessFigures(
            version=__version__,
            form=compilation.describe().partition(":")[0],
            namespace=self._asking.name,
            is_strict=self._is_strict,
            started_at=self._started_at,
            connections=self._connection_count(),
            commits=sum(owner.last_batch for owner in self._owners),
            is_under_pressure=self._owners.is_under_pressure(),
            is_store_full=STORE_IS_FULL in refusals,
            is_throttled=bool(refusals - {STORE_IS_FULL}),
        )

    def store_figures(self) -> list[StoreFigures]:
        return [self._store_figures(report_of(owner)) for owner in self._owners]

    def _store_figures(self, report: StoreReport) -> StoreFigures:
        age_ms = self._clock.now() - report.failed_at
        return StoreFigures(
            name=report.name,
            state=report.state,
            is_full=report.is_full,
            commits=report.commit_count,
            commit_seconds=report.commit_ms / 1000,
            committing_seconds=report.committing_ms / 1000,
            error_age_seconds=age_ms / 1000 if report.failed_at else None,
        )

    def entity_names(self) -> list[EntityName]:
        """With the namespace, if there are several."""
        if len(self._namespaces) == 1:
            return [("", entity.path) for entity in self._asking.entities()]
        is_default = self._asking is self._namespaces.default
        shown = list(self._namespaces) if is_default else [self._asking]
        return [(one.name, entity.path) for one in shown for entity in one.entities()]

    def entity_figures(self, names: Sequence[EntityName]) -> list[EntityFigures]:
        found: list[EntityFigures] = []
        for name, path in names:
            namespace = self._namespaces.named(name) if name else self._asking
            entity = None if namespace is None else namespace.find(path)
            # It may be deleted meanwhile.
            if entity is not None:
                found.append(replace(self._figures(entity), namespace=name))
        return found

    def _figures(self, entity: Entity) -> EntityFigures:
        now = self._clock.now()
        main, counts = entity.all_counters(MAIN), entity.counts()
        return EntityFigures(
            path=entity.path,
            kind=entity.record.kind,
            messages=(
                sum(one.active_count for one in main),
                sum(one.deferred_count for one in main),
                counts.scheduled,
                counts.dead_letter,
                counts.transfer_dead_letter,
            ),
            size_bytes=entity.size_bytes(),
            enqueued=sum(one.next_sequence - 1 for one in main),
            pings=entity.ping_count,
            leases=tuple(
                LeaseFigures(lease.path, lease.reader, (lease.expires_at - now) / 1000)
                for lease in entity.leases_here(now)
            ),
        )
