"""Which entity a credential is valid for; the rest is tested with a live bus."""

import pytest

from twinbus.pairing.sdk.credentials import entity_of_token


@pytest.mark.parametrize(
    ("token", "entity"),
    [
        ("SharedAccessSignature sr=sb%3A%2F%2Fhost%2Forders&sig=s&se=1", "orders"),
        ("SharedAccessSignature sig=s&sr=http%3a%2f%2fhost%2fa%2fb%2f", "a/b"),
        ("SharedAccessSignature sr=sb%3A%2F%2Fhost%2F&sig=s", None),
        ("SharedAccessSignature sr=sb%3A%2F%2Fhost&sig=s", None),
        ("eyJhbGciOi", None),
        ("", None),
    ],
)
def test_the_resource_of_a_signature_names_it(token: str, entity: str | None) -> None:
    assert entity_of_token(token) == entity
