"""What a site's settings must obey before anybody asks Proxmox VE about them."""

import re
from collections.abc import Iterator

from api.models.problems import Violation
from clients.proxmox import Trust
from clients.proxmox.trust import host_and_port
from domain.sites import Site

TOKEN_ID = re.compile(r"[^\s:/@!]+@[A-Za-z][A-Za-z0-9.\-_]+![A-Za-z][A-Za-z0-9.\-_]+")
NAME = re.compile(r"[A-Za-z][A-Za-z0-9.\-_]*")


def broken(site: Site) -> list[Violation]:
    """Everything that is wrong with a site's settings, by the names of the request's fields."""
    return [*_address(site), *_names(site), *_numbers(site)]


def _address(site: Site) -> Iterator[Violation]:
    for index, endpoint in enumerate(site.endpoints):
        try:
            host_and_port(endpoint)
        except ValueError as error:
            yield _wrong(f"endpoints[{index}]", "Malformed", str(error), "write it as https://host:8006")
    if len(set(site.endpoints)) != len(site.endpoints):
        yield _wrong("endpoints", "Duplicate", "the same endpoint twice", "list each once")
    if site.fingerprint and site.ca:
        yield _wrong("ca", "Conflicts", "both a fingerprint and a CA are given", "give one of them")
    for name, trust in (("fingerprint", Trust(fingerprint=site.fingerprint)), ("ca", Trust(ca=site.ca))):
        try:
            trust.check()
        except ValueError as error:
            yield _wrong(name, "Malformed", str(error), "`pvenode cert info` on the node shows it")
    if site.artifact_url is not None and not re.fullmatch(r"https?://[^\s/]+(/\S*)?", site.artifact_url):
        yield _wrong("artifact_url", "Malformed", "this is no http or https address", "leave it out for upstream's own")


def _names(site: Site) -> Iterator[Violation]:
    if not TOKEN_ID.fullmatch(site.token_id):
        yield _wrong("token_id", "Malformed", "this is no token id", "write it as user@realm!name")
    for field, values in (("bridges", site.bridges), ("storages", site.storages), ("iso_storage", (site.iso_storage,))):
        for index, value in enumerate(values):
            if not NAME.fullmatch(value):
                where = field if field == "iso_storage" else f"{field}[{index}]"
                yield _wrong(where, "Malformed", f"{value!r} is no name of Proxmox VE", "use the name it has there")
        if len(set(values)) != len(values):
            yield _wrong(field, "Duplicate", "the same name twice", "list each once")
    pools = (site.workload_pool, site.template_pool)
    if pools[0] == pools[1] or pools[1].startswith(f"{pools[0]}/"):
        # Whoever may delete machines in the workload pool must not reach the templates by it.
        yield _wrong("template_pool", "Conflicts", "the templates must not be in the workload pool", "use another pool")


def _numbers(site: Site) -> Iterator[Violation]:
    if site.vmid_first > site.vmid_last:
        yield _wrong("vmid_last", "OutOfRange", "the range of VM ids ends before it begins", "give a larger number")


def _wrong(path: str, code: str, message: str, remedy: str) -> Violation:
    return Violation(path=path, code=code, message=message, remedy=remedy)
