"""The client for transactions of `conformance/transactions`, which is on Qpid Proton.

The package `conformance` of the tests hides the one at the top of the repository, so it
is loaded from its folder.
"""

import importlib
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

_NAME = "proton_transactions"
_FOLDER = Path(__file__).parents[2] / "conformance" / "transactions"


def load(module: str) -> ModuleType:
    """A module of that folder. Raises ImportError without Proton."""
    if _NAME not in sys.modules:
        spec = spec_from_file_location(
            _NAME,
            _FOLDER / "__init__.py",
            submodule_search_locations=[str(_FOLDER)],
        )
        assert spec is not None
        sys.modules[_NAME] = module_from_spec(spec)
    return importlib.import_module(f"{_NAME}.{module}")
