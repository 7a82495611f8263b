"""Credentials are never shown, and are read when they are used."""

import pickle
from pathlib import Path

import pytest

from twinbus.spark.connection import SparkConnection
from twinbus.spark.secret import Secret, SecretError

TEXT = (
    "Endpoint=sb://bus.example;SharedAccessKeyName=root;SharedAccessKey=very-secret-key"
)


def test_a_text_is_never_shown() -> None:
    secret = Secret(text=TEXT)
    connection = SparkConnection(secret=secret)
    for shown in (repr(secret), str(secret), f"{secret}", repr(connection)):
        assert "very-secret-key" not in shown
    assert "very-secret-key" not in repr(connection.open())
    assert secret.reveal() == TEXT


def test_a_reference_travels_without_what_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "secret"
    file.write_text(TEXT + "\n")
    monkeypatch.setenv("BUS_SECRET", TEXT)
    for reference in (f"file:{file}", "env:BUS_SECRET"):
        secret = Secret.parse("credential", reference)
        assert secret.reveal() == TEXT
        pickled = pickle.dumps(SparkConnection(secret=secret))
        assert b"very-secret-key" not in pickled
        assert pickle.loads(pickled).secret.reveal() == TEXT


def test_a_file_is_read_anew_each_time(tmp_path: Path) -> None:
    """Keys are rotated while queries run."""
    file = tmp_path / "secret"
    file.write_text("one")
    secret = Secret.parse("credential", f"file:{file}")
    assert secret.reveal() == "one"
    file.write_text("two")
    assert secret.reveal() == "two"


@pytest.mark.parametrize("reference", ["env:NOT_THERE", "file:/not/there"])
def test_what_is_not_there_is_named(reference: str) -> None:
    with pytest.raises(SecretError, match=reference):
        Secret.parse("credential", reference).reveal()


def test_an_empty_file_is_no_secret(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text(" \n")
    with pytest.raises(SecretError, match="empty"):
        Secret.parse("credential", f"file:{tmp_path / 'empty'}").reveal()


@pytest.mark.parametrize("value", [TEXT, "env:", "file:", "vault:x"])
def test_what_is_no_reference_is_refused_and_not_repeated(value: str) -> None:
    with pytest.raises(SecretError, match="'credential' must be env:NAME") as refused:
        Secret.parse("credential", value)
    assert "very-secret-key" not in str(refused.value)


def test_an_incomplete_connection_string_is_told_without_showing_it() -> None:
    text = "SharedAccessKeyName=a;SharedAccessKey=very-secret-key"
    with pytest.raises(SecretError, match="Endpoint is missing") as refused:
        SparkConnection(secret=Secret(text=text)).open()
    assert "very-secret-key" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        (TEXT, "https://bus.example:5671"),
        (TEXT + ";UseDevelopmentEmulator=true", "http://bus.example:5672"),
        (TEXT.replace("bus.example", "bus.example:99"), "https://bus.example:99"),
        (TEXT.replace("bus.example", "[::1]:99"), "https://[::1]:99"),
    ],
)
def test_the_address_is_that_of_the_connection_string(text: str, url: str) -> None:
    assert SparkConnection(secret=Secret(text=text)).open().url == url
