"""Several brokers that share stores: a world finds each planted mistake.

Honest brokers are in `test_worlds.py`. Worlds change with the code: if the seed of a
mistake does not find it any more, one of the next worlds with the same plot must.
"""

import re

import pytest

from simulator import run_world
from simulator.broker_plots import Plot

from .planted import MISTAKES, Mistake

OTHERS = 12
"""So many more worlds are tried."""


def check_found(mistake: Mistake) -> None:
    plot_count, found = len(Plot), list[str]()
    later = range(mistake.seed % plot_count, OTHERS * plot_count, plot_count)
    for seed in (mistake.seed, *later):
        violation = run_world(seed, kind=mistake.kind).violation
        if violation is not None:
            found.append(str(violation))
            if re.search(mistake.what, found[-1]):
                return
    pytest.fail(f"not found: {mistake.what}; but {found}")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_of_a_broker_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    mistake = MISTAKES[name]
    monkeypatch.setattr(mistake.place, mistake.name, mistake.mistake)
    check_found(mistake)
