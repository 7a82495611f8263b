"""Fills the table of real clients in docs/compatibility.md from their last results.

A row per case, a column per client; what is between the two markers is replaced, the
rest of the page is left alone. Results are those of `python -m conformance.clients`,
which keeps what it found of each client until that one is run again. `make
clients-page` runs it.
"""

from collections.abc import Mapping
from typing import Any

from compatibility_page import ROOT, write

RESULT = ROOT / "build" / "conformance" / "clients.json"


_LEGEND = """\
A cell names what the case passed over. `-`, and a transport that a cell does not
name, mean "not run": nobody has tried it, the SDK cannot, or the reason is below.
What was run and did not pass says **failed**."""

_SPOKEN = {"plain": "TCP", "tls": "TLS", "ws": "WS", "wss": "WSS"}

Results = Mapping[str, Any]


def section(results: Results) -> str:
    """What stands between the markers."""
    if not results:
        raise ValueError("no client was run: see conformance/clients/README.md")
    clients = [results[name] for name in sorted(results)]
    rows = [
        f"| {case} | {' | '.join(_cell(client, case) for client in clients)} |"
        for case in _cases(clients)
    ]
    titles = " | ".join(_heading(client) for client in clients)
    return "\n".join(
        [
            f"| | {titles} |",
            f"|---|{'---|' * len(clients)}",
            *rows,
            "",
            _LEGEND,
            "",
            *_remarks(clients),
        ]
    )


def _heading(client: Results) -> str:
    text: str = client["title"]
    return text.replace("|", "\\|")


def _cases(clients: list[Results]) -> list[str]:
    """All that any client was asked, in their order."""
    found: dict[str, None] = {}
    for client in clients:
        for told in client["transports"].values():
            found.update(dict.fromkeys(told))
    return list(found)


def _cell(client: Results, case: str) -> str:
    """Over what it passed; a failure says so."""
    passed, failed = [], []
    for transport, told in client["transports"].items():
        ok = told.get(case, {"ok": None})["ok"]
        if ok is not None:
            (passed if ok else failed).append(_SPOKEN[transport])
    parts = [", ".join(passed)] if passed else []
    if failed:
        parts.append(f"**failed** {', '.join(failed)}")
    return "; ".join(parts) or "-"


def _remarks(clients: list[Results]) -> list[str]:
    """Why something failed, or is not there."""
    lines: dict[str, list[str]] = {}
    for client in clients:
        for told in client["transports"].values():
            for case, result in told.items():
                if result["ok"] is not True and result["text"]:
                    line = f"{client['title']}: {_one_line(result['text'])}"
                    cases = lines.setdefault(line, [])
                    if case not in cases:
                        cases.append(case)
    return [f"- {line} ({', '.join(cases)})" for line, cases in lines.items()]


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    write("clients-page", RESULT, "python -m conformance.clients", section)
