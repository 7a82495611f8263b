"""The declared clients can be run: each has sources and known names."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _conformance_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """`tests/conformance` has the same name, and may have been imported."""
    monkeypatch.syspath_prepend(str(ROOT))
    for name in [one for one in sys.modules if one.partition(".")[0] == "conformance"]:
        monkeypatch.delitem(sys.modules, name)


def test_every_declared_client_has_a_program() -> None:
    from conformance.clients.declared import TRANSPORTS, declared_clients

    clients = declared_clients()
    assert clients
    for client in clients.values():
        assert any(path.is_file() for path in client.source.rglob("*")), client.name
        assert set() < set(client.transports) <= set(TRANSPORTS)


def test_a_program_that_ends_early_has_failed() -> None:
    from conformance.clients.cases import CASES
    from conformance.clients.run import _judged

    judged = _judged({"cases": {"send": {"ok": True, "text": ""}}})
    assert judged["send"]["ok"] is True
    assert all(judged[case]["ok"] is False for case in CASES if case != "send")


def test_lines_that_are_no_results_are_left_alone() -> None:
    from conformance.clients.alone import _told

    assert _told("warning: something\n") is None
    assert _told('{"level": "info"}') is None
    assert _told("7") is None
    assert _told('{"case": "send", "ok": null}') == {"case": "send", "ok": None}


def test_results_of_two_runs_at_once_are_all_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from conformance.clients import run
    from conformance.clients.declared import declared_clients

    file = tmp_path / "results" / "clients.json"
    first, second, *_ = declared_clients().values()

    def while_another_run(client: Any, transport: str) -> Any:
        if client is first:
            run._run([second], [second.transports[0]], file)
        return {"cases": {}}

    monkeypatch.setattr(run, "_run_one", while_another_run)
    run._run([first], [first.transports[0]], file)
    assert set(json.loads(file.read_text())) == {first.name, second.name}
