"""A world of several brokers in which topics get subscriptions while stores move.

Everything else is as in `brokers_world.py`. It is a world of its own, because what more
clients do changes what happens in all worlds.
"""

from random import Random

from simulator.broker_drain import drain_each
from simulator.broker_subscribers import TOPICS, Subscriber, SubscriptionAudit
from simulator.brokers_world import BrokersWorld
from simulator.process_loop import ProcessLoop
from twinbus.entities.namespace import Namespace


class BrokerTopicsWorld(BrokersWorld):
    """Everything that exists for one seed."""

    def __init__(self, seed: int, loop: ProcessLoop) -> None:
        super().__init__(seed, loop)
        self._subscriptions = SubscriptionAudit()
        self._subscription_paths: list[str] = []

    async def _make_more(self, namespace: Namespace) -> None:
        for topic, properties in TOPICS.items():
            await namespace.create_topic(topic, properties)

    def _admit_clients(self) -> None:
        super()._admit_clients()
        for number in range(2):
            subscriber = Subscriber(
                f"subscriber-{number}",
                Random(self._random.random()),
                self._subscriptions,
                self._some_broker,
                lambda: self.is_quiet,
                self.tell,
                self.fail,
            )
            self._clients.append(subscriber)
            process = self.new_process(subscriber.name)
            self._living.append(process.run(subscriber.live()))

    async def _check_entities(self) -> list[str]:
        paths = await super()._check_entities()
        self._subscription_paths = [path for path in paths if "/" in path]
        return [path for path in paths if "/" not in path and path not in TOPICS]

    async def _drain(self) -> list[int]:
        taken = await super()._drain()
        random = Random(self._random.random())
        found = drain_each(self._subscription_paths, self._some_broker, random)
        self._subscriptions.concluded(await self._at_the_end(found))
        return taken
