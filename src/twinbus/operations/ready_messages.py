"""Finds active messages that no receiver holds, for requests that remove messages.

Of the messages in memory, those in a window are ready and the others are locked. The
window is that of the queue, or that of a held session.
"""

from twinbus.broker import reader_lease
from twinbus.broker.fragment import Fragment
from twinbus.broker.message import Message
from twinbus.broker.window import Window


class ReadyMessages:
    """The ready messages of a fragment. Each window is read once."""

    def __init__(self, fragment: Fragment, leaving: list[int]) -> None:
        self._fragment = fragment
        # Row ids that the open change set removes. They include expired messages,
        # which are no longer in a window.
        self._leaving = set(leaving)
        self._by_window: dict[Window, dict[int, Message]] = {}

    def find(self, message: Message) -> Message | None:
        """The given message of the store, or its copy in memory if there is one.
        None if a receiver holds it, a range reader has planned it, or the open change
        set removes it."""
        if message.row_id in self._leaving:
            return None
        if reader_lease.is_planned(self._fragment, message.row_id):
            return None
        known = self._known(message)
        if known is None and self._fragment.is_in_memory(message):
            return None
        return known or message

    def _known(self, message: Message) -> Message | None:
        window = self._window_of(message)
        if window is None:
            return None
        if window not in self._by_window:
            self._by_window[window] = {
                ready.row_id: ready for ready in window.ready_messages()
            }
        return self._by_window[window].get(message.row_id)

    def _window_of(self, message: Message) -> Window | None:
        sessions = self._fragment.sessions
        if sessions is None:
            return self._fragment.window
        session = sessions.live(message.session_id)
        return None if session is None else session.window
