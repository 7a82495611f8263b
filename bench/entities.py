"""`python -m bench.entities`: what ten thousand entities that nobody uses cost.

They are made one by one through HTTP administration, as clients make them: queues; or
topics with nine subscriptions each. Memory per entity is what the process holds more
than one with hardly any, at rest: after they were made, and after a restart on them.
Then two servers side by side, with few and with many entities, are sent to and received
from one message at a time: the latency must not know how many others there are.
"""

import argparse
import http.client
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median
from urllib.parse import quote

from bench.load_client import build_client
from bench.measure import Measurement, timed
from bench.processes import usage_of_tree
from bench.results import EntitiesResult, EntityLatency, origin_of, write_results
from bench.tables import entities_table, entity_latency_table
from bench.twinbus_server import TwinbusServer
from twinbus.auth import sas

FEW = 10
MANY = 10_000
QUEUES = "queues"
TOPICS = "topics and subscriptions"
_SUBSCRIPTIONS = 9
_REST_SECONDS = 3.0
_TOKEN_MS = 3600_000
_STARTS = 3

_ATOM = "http://www.w3.org/2005/Atom"
_CONNECT = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"

# Ten thousand is the usual limit, and the bench has a queue of its own.
_CONFIG = "[server]\nmax_entities = 20000\n[queues.bench]\n"


def paths_of(kind: str, count: int) -> Iterator[tuple[str, str]]:
    """Path and kind of each entity."""
    for number in range(count):
        if kind == QUEUES:
            yield f"team-{number % 100}/orders-{number}", "Queue"
            continue
        place = number % (_SUBSCRIPTIONS + 1)
        topic = f"events-{number // (_SUBSCRIPTIONS + 1)}"
        if place == 0:
            yield topic, "Topic"
        else:
            yield f"{topic}/Subscriptions/reader-{place}", "Subscription"


class Administrator:
    """One HTTP connection that makes entities."""

    def __init__(self, server: TwinbusServer) -> None:
        target = server.target
        self._connection = http.client.HTTPConnection("127.0.0.1", target.port)
        self._token = sas.make(
            resource=f"http://127.0.0.1:{target.port}/",
            key_name=target.user,
            key=target.password,
            expires_at=int(time.time() * 1000) + _TOKEN_MS,
        )

    def create(self, path: str, kind: str) -> None:
        """The SDK's request, with nothing but defaults."""
        body = (
            f'<entry xmlns="{_ATOM}"><content type="application/xml">'
            f'<{kind}Description xmlns="{_CONNECT}"/></content></entry>'
        )
        headers = {"Authorization": self._token, "Content-Type": "application/atom+xml"}
        address = f"/{quote(path)}?api-version=2021-05"
        self._connection.request("PUT", address, body, headers)
        response = self._connection.getresponse()
        answer = response.read()
        if response.status != 201:
            raise SystemExit(f"{path} was not created: {response.status} {answer!r}")

    def close(self) -> None:
        self._connection.close()


def create_all(server: TwinbusServer, kind: str, count: int) -> float:
    """Make the entities; how many per second."""
    began = time.monotonic()
    with closing(Administrator(server)) as administrator:
        for path, noun in paths_of(kind, count):
            administrator.create(path, noun)
    return count / (time.monotonic() - began)


def measure_entities(kind: str, count: int) -> EntitiesResult:
    """Memory with that many, and how long it takes to make them and to start."""
    with TwinbusServer(config=_CONFIG) as server:
        rate = create_all(server, kind, count)
        created = _resident_bytes(server)
        starts, restarted = [], 0
        for _ in range(_STARTS):
            server.stop()
            server.start()
            starts.append(server.ready_seconds)
        restarted = _resident_bytes(server)
        return EntitiesResult(
            kind=kind,
            count=count,
            created_per_second=rate,
            created_bytes=created,
            restarted_bytes=restarted,
            start_seconds=median(starts),
        )


def _resident_bytes(server: TwinbusServer) -> int:
    time.sleep(_REST_SECONDS)
    return usage_of_tree(server.pid).anonymous_bytes


def measure_latency(rounds: int, seconds: float) -> list[EntityLatency]:
    """Few and many entities, in turns."""
    results = {count: EntityLatency(count, [], []) for count in (FEW, MANY)}
    with ExitStack() as stack:
        servers = {}
        for count in results:
            servers[count] = stack.enter_context(TwinbusServer(config=_CONFIG))
            create_all(servers[count], QUEUES, count)
        for _ in range(rounds):
            for count, server in servers.items():
                send, receive = _measure_once(server, seconds)
                results[count].send.append(send)
                results[count].receive.append(receive)
    return list(results.values())


def _measure_once(
    server: TwinbusServer, seconds: float
) -> tuple[Measurement, Measurement]:
    one_by_one = ["--window", "1"]
    sending = ["send", "--duration", str(seconds), *one_by_one]
    sent, result = timed(server.target, server.pid, sending)
    receiving = ["receive", "--settle", "confirmed", *one_by_one]
    receiving += ["--count", str(result.messages)]
    return sent, timed(server.target, server.pid, receiving)[0]


def main() -> int:
    """Run from the command line."""
    options = _parse_options()
    build_client()
    results = [measure_entities(QUEUES, FEW)]
    for kind in (QUEUES, TOPICS):
        results.append(measure_entities(kind, options.count))
        print(entities_table(results), file=sys.stderr, flush=True)
    latencies = measure_latency(options.rounds, options.seconds)
    if options.json:
        origin = origin_of("bench.entities")
        write_results(options.json, origin, entities=results, latencies=latencies)
    print(entities_table(results), entity_latency_table(latencies), sep="\n\n")
    return 0


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.entities", description=__doc__
    )
    parser.add_argument("--count", type=int, default=MANY)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="per measurement")
    parser.add_argument("--json", type=Path, help="write raw results to this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
