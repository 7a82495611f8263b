"""`twinbus pair status` shows the true state of the backlog and of its syphon: P12."""

from collections.abc import Iterator

import pytest

from twinbus.cli.pair_questions import pair_report
from twinbus.cli.pair_report import as_json
from twinbus.testing import Bus

from .syphon_world import BACKLOG, PRIMARY, backlog, diverted, put


@pytest.fixture
def sides(
    primary: Bus, secondary: Bus, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Bus, Bus]]:
    monkeypatch.setenv("SSL_CERT_FILE", str(secondary.ca_file))
    secondary.create_queue(backlog(1))
    yield primary, secondary


async def test_keys_that_lack_a_right_are_told(sides: tuple[Bus, Bus]) -> None:
    """P12: the syphon that has them cannot run, and why is shown."""
    await put(sides[1], BACKLOG, [diverted("orders", "one")])
    report = await pair_report(
        sides[0].connection_string_for("Listen"), sides[1].connection_string, PRIMARY
    )
    syphon = as_json(report)["syphon"]
    assert not syphon["can_run_with_these_keys"]
    (lack,) = syphon["lacks"]
    assert lack.startswith("Send on 'orders' of the primary: Unauthorized")


async def test_keys_that_are_good_enough_are_told(sides: tuple[Bus, Bus]) -> None:
    """P12: and the totals of queues and entities agree."""
    await put(sides[1], BACKLOG, [diverted("orders", "one"), diverted("bills", "two")])
    await put(sides[1], backlog(1), [diverted("orders", "three")])
    strings = sides[0].connection_string_for("Send"), sides[1].connection_string
    seen = as_json(await pair_report(*strings, PRIMARY))
    assert seen["syphon"] == {"can_run_with_these_keys": True, "lacks": []}
    assert seen["waiting"] == sum(one["waiting"] for one in seen["entities"]) == 3
    assert seen["not_looked_at"] == 0
