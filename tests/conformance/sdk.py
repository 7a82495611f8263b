"""The official SDK behind one blocking interface, so that a case is written once.

The package has a sync and an async half. `SyncSdk` returns the sync objects unchanged;
`AsyncSdk` runs the async ones on a loop in a thread and wraps them in `Blocking`, which
makes every coroutine method a blocking one. Nothing of the SDK is patched.

Retries are off, so that a case sees the first answer of the bus. Handlers stay open
until the module ends and are then closed together, because one close waits up to a
second for the SDK's keep-alive thread.
"""

import asyncio
import inspect
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import azure.servicebus as sync_package
import azure.servicebus.aio as async_package

# What must come gets this long; it is a bound against hanging, never waited out.
ARRIVAL_SECONDS = 20.0
# What must not come is waited for this long.
QUIET_SECONDS = 0.4

_HANDLERS = (
    async_package.ServiceBusClient,
    async_package.ServiceBusSender,
    async_package.ServiceBusReceiver,
    async_package.ServiceBusSession,
    async_package.AutoLockRenewer,
)


class Blocking:
    """An object of the async package with the face of its sync twin."""

    def __init__(self, inner: Any, run: Callable[[Any], Any]) -> None:
        self.inner = inner
        self._run = run

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.inner, name)
        if not callable(value):
            return self._wrap(value)

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._wrap(self._run(_on_loop(value, args, kwargs)))

        return call

    def __enter__(self) -> "Blocking":
        self._run(self.inner.__aenter__())
        return self

    def __exit__(self, *exc_info: Any) -> None:
        self._run(self.inner.__aexit__(*exc_info))

    def __iter__(self) -> Iterator[Any]:
        while True:
            try:
                yield self._run(self.inner.__anext__())
            except StopAsyncIteration:
                return

    def _wrap(self, value: Any) -> Any:
        return Blocking(value, self._run) if isinstance(value, _HANDLERS) else value


async def _on_loop(method: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call on the loop also what is not a coroutine: it may look for that loop."""
    plain = {name: _unwrap(value) for name, value in kwargs.items()}
    result = method(*(_unwrap(value) for value in args), **plain)
    return await result if inspect.isawaitable(result) else result


def _unwrap(value: Any) -> Any:
    return value.inner if isinstance(value, Blocking) else value


class SyncSdk:
    """Clients, senders and receivers of the sync package, for one bus."""

    flavour = "sync"

    def __init__(self, bus: Any) -> None:
        self.bus = bus
        self._clients: dict[str, Any] = {}
        self._opened: list[Any] = []

    def client(self, connection_string: str | None = None, **options: Any) -> Any:
        """A client; the one for the bus's own connection string is shared."""
        text = connection_string or self.bus.connection_string
        if options:
            return self._new_client(text, options)
        if text not in self._clients:
            self._clients[text] = self._new_client(text, {})
        return self._clients[text]

    def client_with(self, credential: Any) -> Any:
        """A client with a credential object instead of a connection string."""
        host = settings_of(self.bus.connection_string)["Endpoint"]
        return self._make_client(
            lambda kind: kind(host, credential, retry_total=0, use_tls=False)
        )

    def sender(self, queue: str, *, client: Any = None, **options: Any) -> Any:
        """An open sender."""
        client = client or self.client()
        return self._open(client.get_queue_sender(queue, keep_alive=0, **options))

    def receiver(self, queue: str, *, client: Any = None, **options: Any) -> Any:
        """An open receiver, peek-lock unless the options say otherwise."""
        client = client or self.client()
        return self._open(client.get_queue_receiver(queue, **options))

    def dead_letter_receiver(self, queue: str, **options: Any) -> Any:
        """An open receiver on the dead-letter sub-queue."""
        sub_queue = sync_package.ServiceBusSubQueue.DEAD_LETTER
        return self.receiver(queue, sub_queue=sub_queue, **options)

    def topic_sender(self, topic: str, *, client: Any = None, **options: Any) -> Any:
        """An open sender to a topic."""
        client = client or self.client()
        return self._open(client.get_topic_sender(topic, keep_alive=0, **options))

    def subscription_receiver(
        self, topic: str, subscription: str, *, client: Any = None, **options: Any
    ) -> Any:
        """An open receiver of a subscription, peek-lock unless told otherwise."""
        client = client or self.client()
        receiver = client.get_subscription_receiver(topic, subscription, **options)
        return self._open(receiver)

    def subscription_dead_letters(self, topic: str, subscription: str) -> Any:
        """An open receiver on the dead-letter sub-queue of a subscription."""
        sub_queue = sync_package.ServiceBusSubQueue.DEAD_LETTER
        return self.subscription_receiver(topic, subscription, sub_queue=sub_queue)

    def session_receiver(self, queue: str, session_id: Any, **options: Any) -> Any:
        """An open receiver that holds a session."""
        return self.receiver(queue, session_id=session_id, **options)

    def session_ids(self, queue: str, **options: Any) -> list[str]:
        """The ids that the list of sessions has."""
        return list(self.client().list_queue_sessions(queue, **options))

    def renewer(self, **options: Any) -> Any:
        """An `AutoLockRenewer` of this half of the package."""
        return self._track(sync_package.AutoLockRenewer(**options))

    def close_handlers(self) -> None:
        """Close all that was opened, at the same time; new ones may follow."""
        with ThreadPoolExecutor(max_workers=64) as pool:
            list(pool.map(_close_quietly, self._opened))
        self._opened.clear()
        self._clients.clear()

    def close(self) -> None:
        """Close all that was opened, for good."""
        self.close_handlers()

    def _new_client(self, text: str, options: dict[str, Any]) -> Any:
        settings = {"retry_total": 0, **options}
        return self._make_client(
            lambda kind: kind.from_connection_string(text, **settings)
        )

    def _make_client(self, make: Callable[[Any], Any]) -> Any:
        return make(sync_package.ServiceBusClient)

    def _open(self, handler: Any) -> Any:
        handler.__enter__()
        return self._track(handler)

    def _track(self, handler: Any) -> Any:
        self._opened.append(handler)
        return handler


class AsyncSdk(SyncSdk):
    """The same for the async package, on a loop of its own."""

    flavour = "async"

    def __init__(self, bus: Any) -> None:
        super().__init__(bus)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def renewer(self, **options: Any) -> Any:
        """An `AutoLockRenewer` of this half of the package."""
        made = self._run(_on_loop(async_package.AutoLockRenewer, (), options))
        return self._track(Blocking(made, self._run))

    def session_ids(self, queue: str, **options: Any) -> list[str]:
        """The ids that the list of sessions has."""
        pages = self.client().inner.list_queue_sessions(queue, **options)
        return list(self._run(_collected(pages)))

    def close(self) -> None:
        """Close all that was opened, then the loop."""
        self.close_handlers()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _make_client(self, make: Callable[[Any], Any]) -> Any:
        made = self._run(_on_loop(make, (async_package.ServiceBusClient,), {}))
        return Blocking(made, self._run)

    def _run(self, coroutine: Any) -> Any:
        # Far above every wait in the cases: it only keeps a hang from lasting for ever.
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        return future.result(timeout=120)


async def _collected(items: Any) -> list[Any]:
    return [item async for item in items]


def _close_quietly(handler: Any) -> None:
    """A case may have killed the link under the handler; that is not a failure."""
    try:
        handler.close()
    except Exception as error:
        print(f"closing {handler!r}: {error!r}")


def settings_of(connection_string: str) -> dict[str, str]:
    """The parts of a connection string by name."""
    parts = connection_string.strip(";").split(";")
    return dict(part.split("=", 1) for part in parts)


def send_by_session(sender: Any, messages: list[Any]) -> None:
    """Send them in this order. A batch has messages of one session: a partitioned
    entity takes no other."""
    for _, batch in itertools.groupby(messages, lambda message: message.session_id):
        sender.send_messages(list(batch))


def text_of(message: Any) -> str:
    """The body of a message that was sent with a text body."""
    return b"".join(message.body).decode()


def texts_of(messages: list[Any]) -> list[str]:
    """The bodies of messages that were sent with text bodies."""
    return [text_of(message) for message in messages]


def receive(receiver: Any, count: int = 1) -> list[Any]:
    """Exactly `count` messages, over as many calls as that takes."""
    messages: list[Any] = []
    deadline = time.monotonic() + ARRIVAL_SECONDS
    while len(messages) < count and time.monotonic() < deadline:
        messages += receiver.receive_messages(
            max_message_count=count - len(messages), max_wait_time=ARRIVAL_SECONDS
        )
    assert len(messages) == count, f"wanted {count} messages, got {len(messages)}"
    return messages


def receive_one(receiver: Any) -> Any:
    """The next message."""
    return receive(receiver)[0]


def assert_nothing_to_receive(receiver: Any) -> None:
    """No message comes to this receiver for a short while."""
    arrived = receiver.receive_messages(
        max_message_count=1, max_wait_time=QUIET_SECONDS
    )
    assert texts_of(arrived) == []


def eventually(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition that another thread brings about."""
    deadline = time.monotonic() + ARRIVAL_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.02)
