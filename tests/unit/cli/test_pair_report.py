"""The report about a pair: its content, and the exit code."""

import pytest

from twinbus.cli import exit_codes
from twinbus.cli.pair_report import PairReport, as_json, print_report
from twinbus.cli.sdk_side import Reachability
from twinbus.pairing.backlog_status import BacklogQueueStatus, BacklogSurvey

UP, DOWN = Reachability(is_up=True), Reachability(is_up=False, detail="refused")
NOW = 1_767_225_600_000


def queue(index: int = 0, **values: object) -> BacklogQueueStatus:
    known = {"waiting": 0, "dead_letters": 0, "size_bytes": 0, **values}
    path = f"site-a/x-servicebus-transfer/{index}"
    return BacklogQueueStatus(path=path, **known)  # type: ignore[arg-type]


def report(
    *queues: BacklogQueueStatus,
    primary: Reachability = UP,
    secondary: Reachability = UP,
    primaries: tuple[str, ...] = (),
    lacking: tuple[str, ...] | None = (),
) -> PairReport:
    survey = BacklogSurvey(
        primary_name="site-a", queues=queues, lease=None, primaries=primaries
    )
    return PairReport(
        primary_name="site-a",
        primary_host="site-a.example",
        primary=primary,
        secondary_host="site-b.example",
        secondary=secondary,
        survey=survey if secondary.is_up else None,
        lease="none",
        lacking=lacking,
        now=NOW,
    )


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (report(queue()), exit_codes.OK),
        (report(), exit_codes.OK),
        (report(queue(waiting=1)), exit_codes.BACKLOG),
        (report(queue(dead_letters=1)), exit_codes.BACKLOG),
        (report(queue(waiting=1), primary=DOWN), exit_codes.UNREACHABLE),
        (report(secondary=DOWN), exit_codes.UNREACHABLE),
    ],
)
def test_the_exit_code_says_how_the_pair_is(made: PairReport, code: int) -> None:
    assert made.exit_code == code


def test_entities_are_those_of_all_queues() -> None:
    made = report(
        queue(0, waiting=3, entities={"orders": 2, "bills": 1}, parked={"orders": 1}),
        queue(1, waiting=2, entities={"orders": 2}),
    )
    assert made.entities() == [("bills", 1, 0), ("orders", 4, 1)]


def test_what_was_not_looked_at_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    made = report(queue(waiting=5, looked_at=4, entities={"orders": 4}))
    assert not as_json(made)["is_complete"]
    print_report(made)
    assert "the first messages of each queue" in capsys.readouterr().out


def test_the_oldest_is_the_oldest_of_all() -> None:
    made = report(
        queue(0, waiting=1, oldest_at=NOW - 5_000),
        queue(1, waiting=1, oldest_at=NOW - 61_000),
        queue(2),
    )
    assert as_json(made)["oldest_age_ms"] == 61_000
    # The clock of the secondary may be ahead of ours.
    assert made.age_ms(NOW + 10) == 0


def test_tables_escape_what_strangers_wrote(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(report(queue(waiting=1, looked_at=1, entities={"[red]x": 1, "": 1})))
    shown = capsys.readouterr().out
    assert "[red]x" in shown
    assert "(none given)" in shown


def test_a_side_that_is_away_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(report(secondary=DOWN))
    assert "does not answer: refused" in capsys.readouterr().out


def test_totals_of_queues_and_entities_agree(
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = report(
        queue(0, waiting=5, looked_at=4, entities={"orders": 3, "bills": 1}),
        queue(1, waiting=2, looked_at=2, entities={"orders": 2}),
    )
    seen = as_json(made)
    entities = sum(entity["waiting"] for entity in seen["entities"])
    assert seen["waiting"] == entities + seen["not_looked_at"] == 7
    print_report(made)
    assert "(not looked at)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("lacking", "can_run", "shown"),
    [
        ((), True, "can run"),
        (("Send on 'orders'",), False, "cannot run: it lacks Send on 'orders'"),
        (None, None, "not known"),
    ],
)
def test_a_syphon_that_cannot_run_is_told(
    lacking: tuple[str, ...] | None,
    can_run: bool | None,
    shown: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = report(queue(), lacking=lacking)
    assert as_json(made)["syphon"]["can_run_with_these_keys"] is can_run
    print_report(made)
    assert shown in " ".join(capsys.readouterr().out.split())


def test_nobody_is_told_that_no_syphon_ran(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(report(queue()))
    shown = " ".join(capsys.readouterr().out.split())
    assert "never ran" not in shown
    assert "those of applications are not seen from here" in shown
