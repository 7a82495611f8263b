"""Where the brokers of a simulated cluster run.

| places     | processes                           | stores              |
|------------|-------------------------------------|---------------------|
| a machine  | all see each other                  | files and databases |
| containers | two of them on one machine: process | files and databases |
|            | ids mean something else in each     |                     |
| machines   | each broker has one, some of which  | databases           |
|            | have the same name                  |                     |
"""

from dataclasses import dataclass
from random import Random
from typing import Final

from simulator.broker_machine import Dwelling
from simulator.broker_plots import Plot

_FIRST_NAMESPACE: Final = "pid:[4026531836]"
"""The same on every machine, outside of containers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """How places are spread over machines."""

    has_files: bool
    machine_count: int
    container_count: int
    # All machines have the same name.
    is_one_name: bool

    def dwelling_of(self, place: str) -> Dwelling:
        """Places with numbers are those of brokers."""
        _, _, digits = place.rpartition("-")
        number = int(digits) if digits.isdecimal() else 0
        machine = number % self.machine_count
        container = number % self.container_count
        return Dwelling(
            host="machine" if self.is_one_name else f"machine-{machine}",
            boot_id=f"boot-{machine}",
            pid_namespace=f"{_FIRST_NAMESPACE}{container or ''}",
        )


_A_MACHINE: Final = Places(
    has_files=True, machine_count=1, container_count=1, is_one_name=True
)
_CONTAINERS: Final = Places(
    has_files=True, machine_count=1, container_count=2, is_one_name=True
)
_MACHINES: Final = Places(
    has_files=False, machine_count=9, container_count=1, is_one_name=False
)
_NAMESAKES: Final = Places(
    has_files=False, machine_count=9, container_count=1, is_one_name=True
)


def places_for(plot: Plot, random: Random) -> Places:
    """By chance, if the plot does not need some."""
    if plot is Plot.ASLEEP_IN_A_FILE:
        return _A_MACHINE
    if plot is Plot.HIDDEN:
        return random.choice((_CONTAINERS, _NAMESAKES))
    if plot in (Plot.UNANNOUNCED, Plot.UNRENEWED):
        return random.choice((_MACHINES, _NAMESAKES))
    if plot is Plot.ASLEEP:
        return random.choice((_MACHINES, _NAMESAKES))
    return random.choice((_A_MACHINE, _A_MACHINE, _MACHINES, _NAMESAKES))
