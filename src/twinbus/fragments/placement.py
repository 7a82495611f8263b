"""In which stores the fragments of a new entity are.

Fragments of a partitioned entity are spread over all stores of the bus. They begin with
the store that has the fewest; of equal ones with the first. The result is recorded in
the catalog and never computed again: a new store changes nothing for entities that
exist.
"""

from collections.abc import Sequence


def spread(
    fragment_count: int, stores: Sequence[tuple[int, bytes]]
) -> tuple[bytes, ...]:
    """The store of each fragment, by index. `stores` are the number of fragments that
    a store has, and its UUID."""
    by_load = [uuid for _, uuid in sorted(stores, key=_load_of)]
    return tuple(by_load[index % len(by_load)] for index in range(fragment_count))


def _load_of(store: tuple[int, bytes]) -> int:
    return store[0]
