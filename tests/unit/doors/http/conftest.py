"""The fixtures of this folder."""

import pytest
from unit.doors.http.http_home import Home, Wire

from twinbus.doors.http.http_connection import HttpConnection


@pytest.fixture
async def home() -> Home:
    return Home()


@pytest.fixture
async def wire(home: Home) -> Wire:
    return Wire()


@pytest.fixture
async def connection(home: Home, wire: Wire) -> HttpConnection:
    made = HttpConnection(home)
    made.connection_made(wire)
    return made
