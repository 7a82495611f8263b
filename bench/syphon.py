"""`python -m bench.syphon`: how fast a backlog comes back, by each engine.

Two namespaces and the syphon share the machine. Nothing else happens meanwhile; the
bench `pairing` has the same under load.
"""

import argparse
import asyncio
from statistics import median

from bench.machine import describe_machine
from bench.pairing_drain import measure_drain
from bench.pairing_results import OWN_ENGINE, SDK_ENGINE


async def measure(options: argparse.Namespace) -> None:
    print(describe_machine())
    counts = {OWN_ENGINE: options.messages, SDK_ENGINE: options.sdk_messages}
    for engine in options.engines:
        result = await measure_drain(
            engine, counts[engine], options.rounds, options.queues
        )
        rates = sorted(result.rates)
        print(
            f"{engine}: {median(rates):,.0f} msg/s ({rates[0]:,.0f} to "
            f"{rates[-1]:,.0f}), {result.messages:,} messages in {options.queues} "
            "backlog queues",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    engines = (OWN_ENGINE, SDK_ENGINE)
    parser.add_argument("--engines", nargs="+", choices=engines, default=engines)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--sdk-messages", type=int, default=5_000)
    parser.add_argument("--queues", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
