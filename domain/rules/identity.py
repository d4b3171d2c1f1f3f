"""Rules of the wizard's page Identity providers: whose ID tokens the API server accepts.

Kubernetes itself does not keep provider names out of `system:`; we must (facts/kubernetes.md 4.3).
"""

from collections.abc import Iterator
from urllib.parse import urlsplit

from cryptography.x509 import load_pem_x509_certificates

from domain.clusters import ClusterSpec, OidcProvider
from domain.errors import Violation, ViolationCode, shown
from domain.rules.context import SiteContext
from domain.rules.forms import duplicate, malformed, out_of_range, variable

MAX_PROVIDERS = 8
MAX_TEXT = 1024
"""Longest text of a provider, certificates aside."""
MAX_CERTIFICATE = 64 * 1024
RESERVED_PREFIX = "system:"
SERVICE_ACCOUNT_ISSUER = "https://kubernetes.default.svc.cluster.local"
"""The API server refuses to start when a provider has its own issuer's name."""


def check(spec: ClusterSpec, context: SiteContext) -> Iterator[Violation]:
    """Everything wrong on this page."""
    providers = spec.oidc or ()
    if len(providers) > MAX_PROVIDERS:
        yield out_of_range(
            variable("oidc"), f"{len(providers)} identity providers are too many", f"use at most {MAX_PROVIDERS}"
        )
        return
    for index, provider in enumerate(providers):
        path = variable("oidc", index)
        yield from _issuer(provider, path)
        # Compared as typed: a token's issuer must match to the letter, so a final slash makes another issuer.
        if provider.issuer_url in [other.issuer_url for other in providers[:index]]:
            yield duplicate(f"{path}.issuerURL", provider.issuer_url)
        yield from _texts(provider, path)
        yield from _scopes(provider, path)
        yield from _authority(provider, path)


def _issuer(provider: OidcProvider, path: str) -> Iterator[Violation]:
    url = provider.issuer_url
    try:
        parts = urlsplit(url)
        good = parts.scheme == "https" and bool(parts.hostname) and not parts.username and parts.port != 0
    except ValueError:
        good = False
    # Control characters, blanks and the rest of what a URL cannot hold.
    good = good and url.isascii() and url.isprintable() and " " not in url and "?" not in url and "#" not in url
    if not good or len(url) > MAX_TEXT:
        yield malformed(
            f"{path}.issuerURL",
            url,
            "an address of an issuer",
            "write it exactly as its tokens name it: https://, without user, query and fragment",
        )
    elif url == SERVICE_ACCOUNT_ISSUER:
        yield Violation(
            path=f"{path}.issuerURL",
            code=ViolationCode.CONFLICTS,
            message="this is the issuer of the cluster's own ServiceAccount tokens",
            remedy="ServiceAccount tokens always work; leave this provider out",
        )


def _texts(provider: OidcProvider, path: str) -> Iterator[Violation]:
    for field, text, what in (
        ("clientID", provider.client_id, "a client"),
        ("usernameClaim", provider.username_claim, "a claim"),
        ("groupsClaim", provider.groups_claim, "a claim"),
        ("usernamePrefix", provider.username_prefix, "a prefix"),
        ("groupsPrefix", provider.groups_prefix, "a prefix"),
    ):
        if not text.strip() or len(text) > MAX_TEXT or not text.isprintable():
            remedy = f"give 1 to {MAX_TEXT} printable characters"
            if what == "a prefix":
                remedy += ", so that no name passes for a user or group of another kind"
            yield malformed(f"{path}.{field}", text, what, remedy)
        elif what == "a prefix" and text.startswith(RESERVED_PREFIX):
            yield Violation(
                path=f"{path}.{field}",
                code=ViolationCode.NOT_SUPPORTED,
                message=f"names that start with {RESERVED_PREFIX} are Kubernetes' own",
                remedy="use another prefix, like oidc:",
            )


def _scopes(provider: OidcProvider, path: str) -> Iterator[Violation]:
    if len(provider.scopes) > 32:
        yield out_of_range(f"{path}.scopes", f"{len(provider.scopes)} scopes are too many", "use at most 32")
        return
    for index, scope in enumerate(provider.scopes):
        # RFC 6749 3.3: printable ASCII without blank, quote and backslash.
        if not scope or len(scope) > MAX_TEXT or any(not "!" <= letter <= "~" or letter in '"\\' for letter in scope):
            yield malformed(f"{path}.scopes[{index}]", scope, "a scope", "give one word each, like email")
        if scope in provider.scopes[:index]:
            yield duplicate(f"{path}.scopes[{index}]", scope)


def _authority(provider: OidcProvider, path: str) -> Iterator[Violation]:
    pem = provider.certificate_authority
    if pem is None:
        return
    path = f"{path}.certificateAuthority"
    if "PRIVATE KEY" in pem:
        # Not shown: the message would carry the key into answers and logs.
        yield Violation(
            path=path,
            code=ViolationCode.MALFORMED,
            message="this holds a private key",
            remedy="give the certificate alone, and consider the key known to others now",
        )
    elif len(pem) > MAX_CERTIFICATE or not _are_certificates(pem):
        yield malformed(path, pem, "a certificate in PEM", "begin it with -----BEGIN CERTIFICATE-----")


def _are_certificates(pem: str) -> bool:
    try:
        return bool(load_pem_x509_certificates(pem.encode("ascii")))
    except ValueError:
        return False


def unfamiliar(spec: ClusterSpec, known: tuple[OidcProvider, ...]) -> list[str]:
    """Issuers of the spec's providers that are not among `known`: each of them needs Sys.Modify to be trusted."""
    return [shown(provider.issuer_url) for provider in spec.oidc or () if provider not in known]
