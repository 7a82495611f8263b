"""What a pair costs: the figures that the documents give, and other settings."""

import pytest

from twinbus.spark.jobs.meter.pair_costs import (
    DETOUR,
    DIRECT,
    CostSettings,
    EntityOutage,
    PairUse,
    administration_requests,
    idle_receives,
    observed_cost,
    pings_of,
    supposed_cost,
)
from twinbus.spark.jobs.meter.price_book import price_book

DOCUMENTS = price_book("documents")
SERVICE = price_book("service")
NOW = CostSettings()


def use(**fields: object) -> PairUse:
    known = {
        "hours": 24.0,
        "backlog_queues": 10,
        "idle_receives": 960,
        "administration": 1440,
        "diverted": 0,
        "restored": 0,
        "mean_size_bytes": 1_000,
    }
    return PairUse(**{**known, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(("hours", "count"), [(1, 40), (24, 960), (720, 28_800)])
def test_ten_idle_backlog_queues_cost_what_the_documents_say(
    hours: int, count: int
) -> None:
    assert idle_receives(hours, queues=10) == count
    assert idle_receives(hours, queues=10, hosts=3) == 3 * count


def test_a_syphon_looks_for_queues_once_a_minute() -> None:
    assert administration_requests(24) == 1_440


def test_a_syphoned_message_costs_four_operations_by_the_documents() -> None:
    assert DOCUMENTS.of_message(1_000, *DETOUR) == 4
    assert DOCUMENTS.of_message(1_000, *DIRECT) == 2


def test_a_syphoned_message_costs_six_operations_in_the_service() -> None:
    assert SERVICE.of_message(1_000, *DETOUR) == 6
    assert SERVICE.of_message(1_000, *DIRECT) == 3


def test_pings_of_25_entities_and_20_clients_in_an_hour_are_30000() -> None:
    assert pings_of(60, 60, entities=25, clients=20) == 30_000
    assert pings_of(60, 30, entities=25, clients=20) == 60_000


def test_an_idle_pair_costs_its_polls_and_in_the_service_its_looks() -> None:
    cost = observed_cost(use(), DOCUMENTS, NOW)
    assert (cost.billed, cost.administration, cost.idle_of_30_days) == (960, 0, 28_800)
    cost = observed_cost(use(), SERVICE, NOW)
    assert (cost.billed, cost.idle_of_30_days) == (2_400, 72_000)
    assert cost.cost == pytest.approx(2_400 * 0.8 / 1e6)


def test_a_detour_costs_what_it_adds() -> None:
    assert observed_cost(use(diverted=100), DOCUMENTS, NOW).detours == 200
    assert observed_cost(use(diverted=100), SERVICE, NOW).detours == 300


def test_fewer_queues_and_more_hosts_change_the_polls() -> None:
    then = CostSettings(backlog_queue_count=5, syphon_hosts=4)
    cost = supposed_cost(use(), DOCUMENTS, NOW, then)
    assert (cost.idle_receives, cost.idle_of_30_days) == (1_920, 57_600)


def outage(**fields: object) -> EntityOutage:
    known = {"entity": "orders", "pings": 60, "clients": 1, "seconds": 3_600.0}
    return EntityOutage(**{**known, "diverted": 7_200, **fields})  # type: ignore[arg-type]


def test_the_same_settings_cost_the_same() -> None:
    seen = use(outages=(outage(),), diverted=7_200, restored=7_200)
    for book in (DOCUMENTS, SERVICE):
        assert supposed_cost(seen, book, NOW, NOW) == observed_cost(seen, book, NOW)


def test_a_shorter_ping_interval_costs_more_pings() -> None:
    seen = use(outages=(outage(), outage(entity="bills", pings=120, clients=2)))
    then = CostSettings(ping_interval_seconds=20)
    assert supposed_cost(seen, DOCUMENTS, NOW, then).pings == 540


def test_a_longer_failover_interval_diverts_fewer_messages() -> None:
    seen = use(outages=(outage(),), diverted=7_200)
    later = supposed_cost(
        seen, DOCUMENTS, NOW, CostSettings(failover_interval_seconds=660)
    )
    assert (later.diverted_messages, later.pings) == (6_000, 50)
    never = supposed_cost(
        seen, DOCUMENTS, NOW, CostSettings(failover_interval_seconds=7_200)
    )
    assert (never.diverted_messages, never.pings) == (0, 0)
