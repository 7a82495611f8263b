"""What rules can read of a message, independent of its encoding."""

from abc import abstractmethod

from mypy_extensions import mypyc_attr

from twinbus.rules.text_work import TextWork


@mypyc_attr(allow_interpreted_subclasses=True)
class MessageView:
    """One message, as filters and actions see it."""

    @abstractmethod
    def system(self, name: str) -> object:
        """The value of a system property, named as in `system_properties.NAMES`; None
        if it is not set."""

    @abstractmethod
    def user(self, name: str) -> object:
        """The application property with this lower-case name, or MISSING."""

    @abstractmethod
    def text_work(self) -> TextWork:
        """The steps that are left for searching its texts."""

    @abstractmethod
    def entropy(self) -> bytes:
        """Sixteen new random bytes, for `newid()`."""
