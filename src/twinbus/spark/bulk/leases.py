"""The leases of one reader: taken for many entities, and renewed while it lives.

A batch may take longer than a lease lasts, and Spark calls nobody meanwhile; so a
thread of its own renews them, over a connection of its own. It is a daemon: nothing may
keep the process of a query that has ended, and what nobody renews ends by itself.
"""

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Final

from twinbus.spark.bulk.client import BulkClient
from twinbus.spark.bulk.errors import BulkError
from twinbus.spark.connection import Connection
from twinbus.spark.patience import Patience

_log = logging.getLogger(__name__)

_RENEWALS: Final = 3
"""How often within a lease's time: two may fail."""


class Leases:
    """What this reader holds."""

    def __init__(
        self,
        client: BulkClient,
        connection: Connection,
        reader: str,
        lease_ms: int,
        wait_ms: int,
    ) -> None:
        self._client = client
        self._connection = connection
        self._reader = reader
        self._lease_ms = lease_ms
        self._wait_ms = wait_ms
        self._epochs: dict[str, str] = {}
        self._mutex = threading.Lock()
        self._thread: threading.Thread | None = None

    def epochs(self) -> Mapping[str, str]:
        """By path."""
        with self._mutex:
            return dict(self._epochs)

    def hold(self, paths: Sequence[str]) -> list[str]:
        """Hold the leases of all these; returns those that were taken just now.

        Waits for another reader's to end. Raises BulkError.
        """
        try:
            self._renew()
        except BulkError as error:
            if not error.is_lease_lost and not error.is_missing:
                raise
            _log.warning("taking the leases again: %s", error)
            self.forget()
        taken = [path for path in paths if path not in self._epochs]
        if taken:
            self._take(taken)
        self._start()
        return taken

    def _renew(self) -> None:
        epochs = self.epochs()
        if epochs:
            self._client.renew(self._reader, self._lease_ms, epochs)

    def _take(self, paths: Sequence[str]) -> None:
        patience = Patience(self._wait_ms / 1000)
        while True:
            try:
                granted = self._client.take(self._reader, self._lease_ms, paths)
                break
            except BulkError as error:
                if not error.is_lease_held or not patience.wait():
                    raise
                _log.warning("%s Waiting.", error)
        with self._mutex:
            self._epochs.update(granted)

    def forget(self) -> None:
        """They are lost, or not to be renewed any more."""
        with self._mutex:
            self._epochs.clear()

    def drop(self, path: str) -> None:
        """The entity is gone."""
        with self._mutex:
            self._epochs.pop(path, None)

    def release(self) -> None:
        """Give them back: nothing more is read."""
        epochs = self.epochs()
        self.forget()
        if epochs:
            try:
                self._client.release(self._reader, epochs)
            except BulkError as error:
                _log.warning("leases end by themselves: %s", error)

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._renew_for_ever, name="servicebus-leases", daemon=True
            )
            self._thread.start()

    def _renew_for_ever(self) -> None:
        interval = self._lease_ms / 1000 / _RENEWALS
        client = BulkClient(self._connection, int(interval * 1000))
        pause = threading.Event()
        while True:
            pause.wait(interval)
            epochs = self.epochs()
            if not epochs:
                continue
            try:
                client.renew(self._reader, self._lease_ms, epochs)
            except BulkError as error:
                # Whoever plans next finds out, and takes them again.
                _log.warning("leases were not renewed: %s", error)
