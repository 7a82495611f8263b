"""A message for rules, made of two dictionaries."""

from twinbus.rules.text_work import TextWork
from twinbus.rules.values import MISSING
from twinbus.rules.view import MessageView


class PlainView(MessageView):
    """Properties by name; system names in lower case."""

    def __init__(
        self,
        user: dict[str, object] | None = None,
        system: dict[str, object] | None = None,
        entropy: bytes = bytes(16),
    ) -> None:
        self._user = {name.lower(): value for name, value in (user or {}).items()}
        self._system = system or {}
        self._entropy = entropy
        self._text_work = TextWork()

    def user(self, name: str) -> object:
        return self._user.get(name, MISSING)

    def system(self, name: str) -> object:
        return self._system.get(name)

    def text_work(self) -> TextWork:
        return self._text_work

    def entropy(self) -> bytes:
        return self._entropy
