"""Texts for errors of the SDK that say what the matter is.

The SDK has one text for everything that `$cbs` refuses, and none for a certificate that
is not trusted; the details are in the errors that it wraps. An error keeps its class if
that is specific enough, because applications catch it by its class.
"""

import re
import ssl
from collections.abc import Iterator
from typing import Final

from azure.servicebus.exceptions import MessagingEntityNotFoundError

from twinbus.sdk_internals.errors import token_status_of

_NOT_FOUND: Final = 404
_DESCRIPTION: Final = re.compile(r"Description: (.*)", re.DOTALL)

_EXPIRED: Final = 10
"""X509_V_ERR_CERT_HAS_EXPIRED: a fault of the namespace, and not of the client."""


def chain_of(error: BaseException) -> Iterator[BaseException]:
    """The error and what it wraps, from the outside in."""
    seen: list[BaseException] = []
    inner: BaseException | None = error
    while inner is not None and inner not in seen:
        seen.append(inner)
        yield inner
        wrapped = getattr(inner, "inner_exception", None) or inner.__cause__
        inner = wrapped if isinstance(wrapped, BaseException) else None


def distrust_of(error: BaseException) -> str | None:
    """Why the client does not trust the certificate of the namespace, if so."""
    why = None
    for one in chain_of(error):
        if isinstance(one, ssl.SSLCertVerificationError):
            if getattr(one, "verify_code", 0) != _EXPIRED:
                # The innermost one knows best: HTTP clients wrap it in one of theirs.
                why = getattr(one, "verify_message", "") or str(one)
    return why


def is_untrusted(error: BaseException) -> bool:
    """Whether the client does not trust the certificate of the namespace."""
    return distrust_of(error) is not None


def reason_of(error: BaseException) -> str:
    """A text with the details; never empty."""
    for one in chain_of(error):
        if token_status_of(one) is not None:
            found = _DESCRIPTION.search(str(one))
            return found[1].strip() if found else str(one)
    text = str(error) or type(error).__name__
    if is_untrusted(error):
        text += (
            " The client does not trust the certificate: give it the authority "
            "(connection_verify, ssl_context), or mend the host in its connection "
            "string."
        )
    return text


def as_raised(error: Exception) -> Exception:
    """The error that the application gets."""
    status = next(filter(None, map(token_status_of, chain_of(error))), None)
    if status == _NOT_FOUND:
        told = MessagingEntityNotFoundError(message=reason_of(error))
        told.__cause__ = error
        return told
    return explained(error, "") if is_untrusted(error) else error


def explained(error: Exception, about: str) -> Exception:
    """The same error, with a text that says what was being done."""
    text = f"{about}: {reason_of(error)}" if about else reason_of(error)
    error.args = (text, *error.args[1:])
    if hasattr(error, "message"):
        error.message = text
    return error
