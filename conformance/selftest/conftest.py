"""A fake namespace, started before the shim reads where the server is."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from fake_namespace import FakeNamespace
from livetests import patches

KEY = "c2VjcmV0"
_namespace = FakeNamespace(key_name="Root", key=KEY)
_namespace.start()
os.environ["SB_CONNECTION_STRING"] = (
    "Endpoint=sb://localhost:5999;SharedAccessKeyName=Root;"
    f"SharedAccessKey={KEY};UseDevelopmentEmulator=true;"
)
os.environ["SB_HTTP_ENDPOINT"] = f"http://127.0.0.1:{_namespace.port}"
os.environ["SERVICEBUS_ENDPOINT_SUFFIX"] = ""

patches.apply()


@pytest.fixture
def namespace() -> Iterator[FakeNamespace]:
    """The fake, without anything in it; what it was asked must be signed for it."""
    _namespace.entities.clear()
    _namespace.requests.clear()
    yield _namespace
    host = f"127.0.0.1:{_namespace.port}"
    wrong = [r for r in _namespace.requests if r.token_error or r.host != host]
    assert wrong == []
