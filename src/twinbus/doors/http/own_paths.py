"""First parts of paths that mean the bus itself, and not an entity. No entity can have
such a name."""

from typing import Final

FAULTS: Final = "$faults"
DIAGNOSIS: Final = "$diagnosis"
NAMESPACES: Final = "$namespaces"
