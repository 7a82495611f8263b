"""What routing and sending on need to know of the entity that gets the messages."""

from abc import abstractmethod

from mypy_extensions import mypyc_attr

from twinbus.broker.fragment import Fragment
from twinbus.broker.fragment_settings import FragmentSettings
from twinbus.broker.home import Home


@mypyc_attr(allow_interpreted_subclasses=True)
class FragmentSource:
    """Finds the fragments of one entity."""

    @abstractmethod
    def find_fragment(self, index: int) -> Fragment | None:
        """The main fragment of that index; None while its store is not open."""

    def detects_duplicates(self) -> bool:
        """The entity does. Asked only while no store of it is open."""
        return False

    def may_be_elsewhere(self, index: int) -> bool:
        """Another broker may have this fragment; then the rest of this is asked."""
        return False

    def home_of(self, index: int) -> Home:
        raise AssertionError("this entity has all its fragments here")

    def generation(self) -> bytes:
        raise AssertionError("this entity has all its fragments here")

    def main_settings(self) -> FragmentSettings:
        raise AssertionError("this entity has all its fragments here")
