"""The leases of one reader: taken for many entities, and renewed while it lives.

A batch may take longer than a lease lasts, and Spark does not call us meanwhile. So a
thread renews the leases, over a connection of its own. It is a daemon, because it must
not keep the process of an ended query alive; leases that are not renewed end by
themselves. The thread ends when no lease is held any more, and when the process has
lost its parent, because then the query is over. Who is done before that closes them.
"""

import logging
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Final

from twinbus.spark.bulk.client import BulkClient
from twinbus.spark.bulk.errors import BulkError
from twinbus.spark.connection import SparkConnection
from twinbus.spark.patience import RetryPatience

_log = logging.getLogger(__name__)

_RENEWALS: Final = 3
"""How often within a lease's time: two may fail."""


class Leases:
    """What this reader holds."""

    def __init__(
        self,
        client: BulkClient,
        connection: SparkConnection,
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
        self._thread: threading.Thread | None = None

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
        """Renew the leases, and forget those that are lost. Raises BulkError."""
        epochs = self.epochs()
        if not epochs:
            return
        try:
            client.renew(self._reader, self._lease_ms, epochs)
        except BulkError as error:
            if not (error.is_lease_lost or error.is_missing):
                raise
            # A request renews all or none: one by one, a lost lease affects no other.
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
        """Give back these leases, or all: their entities are not read any more."""
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

    def close(self) -> None:
        """Renew nothing any more, and wait for the end of a request that is under way.
        Leases that are still held end by themselves."""
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()

    # --- the thread -----------------------------------------------------------

    def _start(self) -> None:
        """Start a thread with its own stop event: an older thread may still run."""
        if self._is_over.is_set():
            self._is_over = threading.Event()
            self._thread = threading.Thread(
                target=self._renew_until,
                args=(self._is_over,),
                name="servicebus-leases",
                daemon=True,
            )
            self._thread.start()

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
            # The next plan finds out, and takes them again.
            _log.warning("leases were not renewed: %s", error)
