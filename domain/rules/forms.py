"""Forms that texts must have, and a short way to say that one has not."""

import re

from domain.errors import Violation, ViolationCode, shown

_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_LETTER_LABEL = re.compile(r"[a-z](?:[a-z0-9-]*[a-z0-9])?")
_QUALIFIED_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_PROXMOX_NAME = re.compile(r"[A-Za-z](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_NODE_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?")

MAX_LABEL = 63
MAX_HOSTNAME = 253


def is_label(text: str, longest: int = MAX_LABEL) -> bool:
    """A DNS label in lower case."""
    return len(text) <= longest and _LABEL.fullmatch(text) is not None


def is_letter_label(text: str, longest: int = MAX_LABEL) -> bool:
    """A DNS label in lower case that starts with a letter, as each level of a Proxmox VE pool must."""
    return len(text) <= longest and _LETTER_LABEL.fullmatch(text) is not None


def is_hostname(text: str) -> bool:
    """A DNS name in lower case: labels of at most 63 characters, 253 in all, the last one not all digits."""
    labels = text.split(".")
    return len(text) <= MAX_HOSTNAME and all(map(is_label, labels)) and not labels[-1].isdigit()


def is_object_name(text: str) -> bool:
    """A name of a Kubernetes object (DNS subdomain)."""
    return len(text) <= MAX_HOSTNAME and all(map(is_label, text.split(".")))


def is_label_value(text: str) -> bool:
    """A value of a Kubernetes label."""
    return text == "" or (len(text) <= MAX_LABEL and _QUALIFIED_NAME.fullmatch(text) is not None)


def is_qualified_key(text: str) -> bool:
    """A key of a Kubernetes label or annotation, with or without a prefix."""
    prefix, slash, name = text.rpartition("/")
    good = len(name) <= MAX_LABEL and _QUALIFIED_NAME.fullmatch(name) is not None
    return good and (not slash or is_object_name(prefix))


def is_proxmox_name(text: str) -> bool:
    """A Proxmox VE storage, bridge or VNet."""
    return len(text) <= MAX_LABEL and _PROXMOX_NAME.fullmatch(text) is not None


def is_node_name(text: str) -> bool:
    """A Proxmox VE node, which is a host name without domain."""
    return len(text) <= MAX_LABEL and _NODE_NAME.fullmatch(text) is not None


def variable(name: str, *parts: str | int) -> str:
    """Path of a variable or a part of it: `spec.topology.variables[network].addresses[0]`."""
    path = f"spec.topology.variables[{name}]"
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    return path


def malformed(path: str, value: str, what: str, remedy: str) -> Violation:
    """`value` is not `what`."""
    return Violation(path=path, code=ViolationCode.MALFORMED, message=f"{shown(value)} is not {what}", remedy=remedy)


def out_of_range(path: str, message: str, remedy: str) -> Violation:
    return Violation(path=path, code=ViolationCode.OUT_OF_RANGE, message=message, remedy=remedy)


def bounded(path: str, value: int, low: int, high: int, what: str) -> list[Violation]:
    """Empty when `low <= value <= high`."""
    if low <= value <= high:
        return []
    return [out_of_range(path, f"{what} cannot be {shown(value)}", f"use {low} to {high}")]


def conflicts(path: str, message: str, remedy: str) -> Violation:
    return Violation(path=path, code=ViolationCode.CONFLICTS, message=message, remedy=remedy)


def overlaps(path: str, message: str, remedy: str) -> Violation:
    return Violation(path=path, code=ViolationCode.OVERLAPS, message=message, remedy=remedy)


def duplicate(path: str, value: str) -> Violation:
    return Violation(
        path=path, code=ViolationCode.DUPLICATE, message=f"{shown(value)} is given twice", remedy="keep one of them"
    )
