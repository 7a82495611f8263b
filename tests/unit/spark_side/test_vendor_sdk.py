"""The SDK for namespaces that are not twinbus: installed, and not too old."""

import sys
import tomllib
from pathlib import Path

import azure.servicebus
import pytest

from twinbus.spark.vendor_sdk import VendorSdkMissing, require_sdk

PROJECT = Path(__file__).parents[3] / "pyproject.toml"


@pytest.mark.parametrize("version", ["7.15.0", "7.16.0b1", "8.0"])
def test_one_that_can_browse_will_do(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(azure.servicebus, "__version__", version)
    require_sdk()


@pytest.mark.parametrize("version", ["7.14.3", "6.99"])
def test_an_older_one_is_told(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(azure.servicebus, "__version__", version)
    with pytest.raises(
        VendorSdkMissing,
        match=rf"7\.15 or later, and there is azure-servicebus {version}",
    ):
        require_sdk()


def test_none_is_told_with_the_extra_that_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "azure.servicebus", None)
    with pytest.raises(VendorSdkMissing) as told:
        require_sdk()
    assert "there is none" in str(told.value)
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    assert "'twinbus[spark-amqp]'" in str(told.value)
    assert "azure-servicebus>=7.15" in extras["spark-amqp"]
