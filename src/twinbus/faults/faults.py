"""What doors ask: does a fault hit this operation, and what becomes of it?"""

from typing import Final

from twinbus.clock import Clock
from twinbus.errors import InternalError, ServerBusy, ServiceBusError
from twinbus.faults.decision import Occasion, matches
from twinbus.faults.fault import Effect, InjectedFault, Operation
from twinbus.faults.fault_table import FaultTable

_REFUSALS: Final = frozenset((Effect.REFUSE, Effect.BUSY))
_DROPS: Final = frozenset((Effect.DROP,))
_UNANSWERED: Final = frozenset((Effect.UNANSWERED,))
_CONNECTION: Final = frozenset((Effect.REFUSE, Effect.BUSY, Effect.DROP))


class Faults:
    """The faults of one namespace."""

    def __init__(self, table: FaultTable, clock: Clock, namespace: str) -> None:
        self.table = table
        self.clock = clock
        self.namespace = namespace

    def within(self, namespace: str) -> "Faults":
        """The same faults, as they hit another namespace."""
        if namespace == self.namespace:
            return self
        return Faults(self.table, self.clock, namespace)

    def refusal(self, operation: Operation, entity: str) -> ServiceBusError | None:
        """The error of an operation that is refused."""
        fault = self._find(_REFUSALS, operation, entity)
        return None if fault is None else refusal_by(fault, operation, entity)

    def drops(self, operation: Operation, entity: str) -> bool:
        """The connection is cut before the operation."""
        return self._find(_DROPS, operation, entity) is not None

    def leaves_unanswered(self, operation: Operation, entity: str) -> bool:
        """The connection is cut after the operation, before its answer."""
        return self._find(_UNANSWERED, operation, entity) is not None

    def refuses_connection(self) -> bool:
        """A client that connects now is cut off."""
        return self._find(_CONNECTION, Operation.CONNECT, "") is not None

    def concerns(self, fault: InjectedFault) -> bool:
        """The fault is one of this namespace."""
        return matches(fault.namespace, self.namespace)

    def _find(
        self, effects: frozenset[Effect], operation: Operation, entity: str
    ) -> InjectedFault | None:
        occasion = Occasion(
            operation=operation, entity=entity, namespace=self.namespace
        )
        return self.table.find(effects, occasion, self.clock.now())


def refusal_by(
    fault: InjectedFault, operation: Operation, entity: str
) -> ServiceBusError:
    """The error that an operation gets by this fault."""
    where = f"'{entity}'" if entity else "the namespace"
    text = (
        f"Fault {fault.number}, set for a test, refuses the operation "
        f"'{operation.value}' on {where}."
    )
    if fault.effect is Effect.BUSY:
        return ServerBusy(
            f"The server is busy. {text} Wait 10 seconds, then try again.",
            entity_path=entity,
        )
    return InternalError(
        f"{text} 'twinbus faults clear {fault.number}' ends that.", entity_path=entity
    )
