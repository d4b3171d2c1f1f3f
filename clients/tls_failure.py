"""Tells a failed TLS conversation from a silent address: the first means the wrong server or the wrong certificate."""

import ssl

import httpx

NO_ANSWER = (httpx.HTTPError, ssl.SSLError)
"""What a call without an answer raises. httpx lets an alert that comes while it reads through as it is (TLS 1.3)."""


def tls_failure(error: httpx.HTTPError | ssl.SSLError, server: str) -> str | None:
    """What went wrong in the TLS conversation with `server`, in words for people; None when it was not TLS."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"{server} shows a certificate that is not this cluster's: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError) and "alert" in str(cause).lower():
            return f"{server} refused our certificate: {cause.reason}"
        cause = cause.__cause__ or cause.__context__
    text = str(error)
    if "certificate verify failed" in text.lower():
        return f"{server} shows a certificate that is not this cluster's: {text}"
    return None
