"""The leases of one reader: taken for many entities, and renewed while it lives.

A batch may take longer than a lease lasts, and Spark calls nobody meanwhile; so a
thread of its own renews them, over a connection of its own. It is a daemon: nothing may
keep the process of a query that has ended, and what nobody renews ends by itself. It
ends when nothing is held any more, and when the process has lost its parent: then there
is no query any more.
"""

import logging
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Final

from twinbus.spark.bulk.client import BulkClient
from twinbus.spark.bulk.errors import BulkError
from twinbus.spark.connection import Connection
from twinbus.spark.patience import RetryPatience

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
        # Of the thread that renews: set when it is to end.
        self._is_over = threading.Event()
        self._is_over.set()

    def epochs(self) -> Mapping[str, str]:
        """By path."""
        with self._mutex:
            return dict(self._epochs)

    def hold(self, paths: Sequence[str]) -> list[str]:
        """Hold the leases of all these; returns those that were taken just now.

        Waits for another reader's to end. Raises BulkError.
        """
        self._renew(self._client)
        held = self.epochs()
        taken = [path for path in paths if path not in held]
        if taken:
            self._take(taken)
        self._start()
        return taken

    def _renew(self, client: BulkClient) -> None:
        """Renew what is held, and forget what is lost. Raises BulkError."""
        epochs = self.epochs()
        if not epochs:
            return
        try:
            client.renew(self._reader, self._lease_ms, epochs)
        except BulkError as error:
            if not (error.is_lease_lost or error.is_missing):
                raise
            # All or none of a request are renewed; one that is lost costs no other.
            for path, epoch in epochs.items():
                self._renew_one(client, path, epoch)

    def _renew_one(self, client: BulkClient, path: str, epoch: str) -> None:
        try:
            client.renew(self._reader, self._lease_ms, {path: epoch})
        except BulkError as error:
            if not (error.is_lease_lost or error.is_missing):
                raise
            _log.warning("a lease is lost: %s", error)
            self._forget_one(path, epoch)

    def _take(self, paths: Sequence[str]) -> None:
        patience = RetryPatience(self._wait_ms / 1000)
        is_told = False
        while True:
            try:
                granted = self._client.take(self._reader, self._lease_ms, paths)
                break
            except BulkError as error:
                if not error.is_lease_held or not patience.wait():
                    raise
                if not is_told:
                    _log.warning("%s Waiting up to %g s.", error, self._wait_ms / 1000)
                is_told = True
        with self._mutex:
            self._epochs.update(granted)

    def _forget_one(self, path: str, epoch: str) -> None:
        with self._mutex:
            if self._epochs.get(path) == epoch:
                del self._epochs[path]

    def release(self, paths: Sequence[str] | None = None) -> None:
        """Give these back, or all: nothing more is read of them."""
        epochs = {
            path: epoch
            for path, epoch in self.epochs().items()
            if paths is None or path in paths
        }
        for path, epoch in epochs.items():
            self._forget_one(path, epoch)
        if not self.epochs():
            self._is_over.set()
        if epochs:
            try:
                self._client.release(self._reader, epochs)
            except BulkError as error:
                _log.warning("leases end by themselves: %s", error)

    # --- the thread -----------------------------------------------------------

    def _start(self) -> None:
        """Each thread has an end of its own: one that is over may not have noticed."""
        if self._is_over.is_set():
            self._is_over = threading.Event()
            threading.Thread(
                target=self._renew_until,
                args=(self._is_over,),
                name="servicebus-leases",
                daemon=True,
            ).start()

    def _renew_until(self, is_over: threading.Event) -> None:
        interval = self._lease_ms / 1000 / _RENEWALS
        parent = os.getppid()
        try:
            with closing(BulkClient(self._connection, int(interval * 1000))) as client:
                while os.getppid() == parent:
                    self._try_to_renew(client)
                    if is_over.wait(interval):
                        return
        finally:
            is_over.set()

    def _try_to_renew(self, client: BulkClient) -> None:
        try:
            self._renew(client)
        except BulkError as error:
            # Whoever plans next finds out, and takes them again.
            _log.warning("leases were not renewed: %s", error)
