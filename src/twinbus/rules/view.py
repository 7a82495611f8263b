"""What a rule may ask of a message, without knowing how it is encoded."""

from abc import abstractmethod

from mypy_extensions import mypyc_attr

from twinbus.rules.text_work import TextWork


@mypyc_attr(allow_interpreted_subclasses=True)
class MessageView:
    """One message, as filters and actions see it."""

    @abstractmethod
    def system(self, name: str) -> object:
        """The value of a system property, named as in `system_properties.NAMES`;
        None where the message leaves it open."""

    @abstractmethod
    def user(self, name: str) -> object:
        """The value of the application property of this name, which is in lower
        case, or MISSING."""

    @abstractmethod
    def text_work(self) -> TextWork:
        """What is left for looking through its texts."""

    @abstractmethod
    def entropy(self) -> bytes:
        """Sixteen bytes that were not handed out before, for `newid()`."""
