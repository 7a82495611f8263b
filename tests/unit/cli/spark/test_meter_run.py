"""What metering prints: a name of an entity is never broken."""

import pytest

from twinbus.cli.spark import meter_run
from twinbus.spark.jobs.meter.meter_summary import (
    BilledLine,
    BookTotal,
    MeterSummary,
)

NAME = "billing-of-the-eastern-warehouses/subscriptions/everything-for-the-auditors"


def metered() -> MeterSummary:
    line = BilledLine(
        book="service",
        namespace="site-a",
        entity=NAME,
        kind="receive_and_delete",
        interactions=12_345_678,
        billed=12_345_678,
        cost=0.5,
    )
    total = BookTotal(
        book="service", title="Prices", currency="USD", billed=1.0, cost=0.5
    )
    return MeterSummary(
        totals=(total,),
        lines=(line,),
        pair=None,
        pair_costs=(),
        what_if=(),
        rows=1,
        hours=1,
        open_hours=(),
        gaps=(),
        seconds=1.0,
    )


def test_a_bill_has_each_entity_on_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    meter_run._print(metered())
    lines = capsys.readouterr().out.splitlines()
    [line] = [line for line in lines if f"site-a: {NAME}" in line]
    assert line.split()[-4:] == [
        "receive_and_delete",
        "12,345,678",
        "12,345,678",
        "0.500000",
    ]
