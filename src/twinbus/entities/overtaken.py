"""A change of entities that another broker forestalled, and that is tried again.

Brokers change the catalog by compare-and-set, and any change of another broker since
the last look makes it fail, also one of another entity. A client would have to try
again for no reason that it could see.
"""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

from twinbus.errors import Overtaken

_TRIES: Final = 10
"""Each time some broker makes progress, so a few brokers do not need as many."""

P = ParamSpec("P")
T = TypeVar("T")


def tried_again(
    change: Callable[P, Coroutine[Any, Any, T]],
) -> Callable[P, Coroutine[Any, Any, T]]:
    """A change that checks everything anew each time. Raises Overtaken at last."""

    @wraps(change)
    async def until_first(*given: P.args, **named: P.kwargs) -> T:
        for _ in range(_TRIES - 1):
            try:
                return await change(*given, **named)
            except Overtaken:
                continue
        return await change(*given, **named)

    return until_first
