"""`python -m bench.report FILE...`: puts results into docs/benchmarks.md.

The page has marked places, `<!-- bench:NAME -->` to `<!-- bench:end -->`, and only
what is between them is replaced. Each bench has places of its own; a place no file
speaks about keeps what it has. Figures come from files only: nobody types them.
"""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.attackers.outcome import Outcome, outcome_table
from bench.cases import Operation
from bench.pairing_results import (
    DrainResult,
    drain_table,
    load_table,
    outage_table,
    read_loads,
)
from bench.results import (
    CaseResult,
    DiskResult,
    EntitiesResult,
    InstructionsResult,
    read_backlogs,
    read_cases,
    read_comparisons,
    read_entity_latencies,
    read_rules,
)
from bench.sessions import SessionsResult, sessions_table
from bench.spark_results import (
    ReadingResult,
    SyphonResult,
    drained_table,
    memory_table,
    read_drained,
    reading_table,
    syphon_table,
)
from bench.tables import (
    backlog_table,
    case_table,
    comparison_table,
    disk_table,
    entities_table,
    entity_latency_table,
    instructions_table,
    rules_table,
    start_table,
)

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
_END = "<!-- bench:end -->"


def places_of(content: dict[str, Any]) -> dict[str, str]:
    """What a result file has to say, by the name of the place it belongs to."""
    kind = next(kind for kind in _PLACES if kind in content)
    return _PLACES[kind](content) | {f"{kind}-origin": _origin(content["origin"])}


def fill(page: str, places: dict[str, str]) -> str:
    """The page with the named places replaced."""
    for name, text in places.items():
        before, start, rest = page.partition(f"<!-- bench:{name} -->\n")
        _, end, after = rest.partition(_END)
        if not end:
            raise SystemExit(f"{PAGE.name} has no place called {name}")
        page = "".join([before, start, text, "\n", end, after])
    return page


def _case_places(content: dict[str, Any]) -> dict[str, str]:
    """The base point, fixed rates, and each other dimension, in tables of their own."""
    places: dict[str, list[CaseResult]] = {}
    for result in read_cases(content["cases"]):
        places.setdefault(_place_of(result.name), []).append(result)
    return {name: case_table(cases) for name, cases in places.items()}


def _backlog_places(content: dict[str, Any]) -> dict[str, str]:
    start, backlogs = read_backlogs(content)
    return {"start": start_table(start), "backlogs": backlog_table(backlogs)}


def _comparison_places(content: dict[str, Any]) -> dict[str, str]:
    return {"comparisons": comparison_table(read_comparisons(content))}


def _instruction_places(content: dict[str, Any]) -> dict[str, str]:
    results = [InstructionsResult(**one) for one in content["instructions"]]
    return {"instructions": instructions_table(results)}


def _topic_places(content: dict[str, Any]) -> dict[str, str]:
    disk = [DiskResult(**one) for one in content["disk"]]
    return {
        "topics": case_table(read_cases(content["topics"])),
        "disk": disk_table(disk),
    }


def _rule_places(content: dict[str, Any]) -> dict[str, str]:
    return {"rules": rules_table(read_rules(content))}


def _session_places(content: dict[str, Any]) -> dict[str, str]:
    sessions = [SessionsResult(**one) for one in content["sessions"]]
    return {"sessions": sessions_table(sessions)}


def _attacker_places(content: dict[str, Any]) -> dict[str, str]:
    outcomes = [Outcome(**one) for one in content["attackers"]]
    return {"attackers": outcome_table(outcomes)}


def _entity_places(content: dict[str, Any]) -> dict[str, str]:
    entities = [EntitiesResult(**one) for one in content["entities"]]
    return {
        "entities": entities_table(entities),
        "latencies": entity_latency_table(read_entity_latencies(content)),
    }


def _pairing_places(content: dict[str, Any]) -> dict[str, str]:
    loads = read_loads(content["pairing"])
    return {
        "pairing": load_table(loads),
        "outages": outage_table(loads),
        "drains": drain_table([DrainResult(**one) for one in content["drains"]]),
    }


def _spark_places(content: dict[str, Any]) -> dict[str, str]:
    drained = read_drained(content["drained"])
    return {
        "spark": reading_table([ReadingResult(**one) for one in content["spark"]]),
        "drained": drained_table(drained),
        "spark-memory": memory_table(drained),
        "syphons": syphon_table([SyphonResult(**one) for one in content["syphons"]]),
    }


# What a result file is told by, and what it fills.
_PLACES: dict[str, Callable[[dict[str, Any]], dict[str, str]]] = {
    "attackers": _attacker_places,
    "cases": _case_places,
    "backlogs": _backlog_places,
    "comparisons": _comparison_places,
    "instructions": _instruction_places,
    "topics": _topic_places,
    "rules": _rule_places,
    "sessions": _session_places,
    "entities": _entity_places,
    "pairing": _pairing_places,
    "spark": _spark_places,
}


def _place_of(case: str) -> str:
    if case.startswith(Operation.FIXED_RATE):
        return "fixed-rate"
    if case.endswith("-tls"):
        return "tls"
    if case.endswith("-256B-1c-w1000"):
        return "base"
    return "sizes" if case.endswith("-1c-w1000") else "crowds"


def _origin(origin: dict[str, str]) -> str:
    return (
        f"- machine: {origin['machine']}\n- versions: {origin['versions']}\n"
        f"- command: `{origin['command']}`"
    )


def main(files: Sequence[str]) -> int:
    """Fill the page from the named files."""
    if not files:
        print("usage: python -m bench.report FILE...", file=sys.stderr)
        return 2
    page = PAGE.read_text()
    for file in files:
        page = fill(page, places_of(json.loads(Path(file).read_text())))
    PAGE.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
