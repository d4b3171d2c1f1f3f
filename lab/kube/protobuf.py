"""Protobuf bodies of the kinds that kubectl's typed clients send; everything else is answered with 415.

The wire format is the public one of protocol buffers; the field numbers are those of the API's published messages.
"""

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from lab.kube.objects import Obj, micro_text, now_text

MEDIA = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"

Field = tuple[str, Any, bool]
"""Name, how to read it (`text`, `bytes`, `int`, `bool`, `time`, `micro`, `map`, `bytemap` or a message), repeated."""
Message = dict[int, Field]

_OWNER: Message = {
    1: ("kind", "text", False),
    3: ("name", "text", False),
    4: ("uid", "text", False),
    5: ("apiVersion", "text", False),
    6: ("controller", "bool", False),
    7: ("blockOwnerDeletion", "bool", False),
}
_META: Message = {
    1: ("name", "text", False),
    2: ("generateName", "text", False),
    3: ("namespace", "text", False),
    5: ("uid", "text", False),
    6: ("resourceVersion", "text", False),
    7: ("generation", "int", False),
    8: ("creationTimestamp", "time", False),
    9: ("deletionTimestamp", "time", False),
    11: ("labels", "map", False),
    12: ("annotations", "map", False),
    13: ("ownerReferences", _OWNER, True),
    14: ("finalizers", "text", True),
}
_RULE: Message = {
    1: ("verbs", "text", True),
    2: ("apiGroups", "text", True),
    3: ("resources", "text", True),
    4: ("resourceNames", "text", True),
    5: ("nonResourceURLs", "text", True),
}
_SUBJECT: Message = {
    1: ("kind", "text", False),
    2: ("apiGroup", "text", False),
    3: ("name", "text", False),
    4: ("namespace", "text", False),
}
_REFERENCE: Message = {1: ("apiGroup", "text", False), 2: ("kind", "text", False), 3: ("name", "text", False)}
_DELETE: Message = {
    1: ("gracePeriodSeconds", "int", False),
    2: ("preconditions", {1: ("uid", "text", False), 2: ("resourceVersion", "text", False)}, False),
    4: ("propagationPolicy", "text", False),
    5: ("dryRun", "text", True),
}
_ASKED: Message = {
    1: ("namespace", "text", False),
    2: ("verb", "text", False),
    3: ("group", "text", False),
    4: ("version", "text", False),
    5: ("resource", "text", False),
    6: ("subresource", "text", False),
    7: ("name", "text", False),
}
_PATHS: Message = {1: ("path", "text", False), 2: ("verb", "text", False)}
_ROLE: Message = {1: ("metadata", _META, False), 2: ("rules", _RULE, True)}
_BINDING: Message = {1: ("metadata", _META, False), 2: ("subjects", _SUBJECT, True), 3: ("roleRef", _REFERENCE, False)}

_KINDS: dict[str, Message] = {
    "Namespace": {1: ("metadata", _META, False), 2: ("spec", {1: ("finalizers", "text", True)}, False)},
    "ConfigMap": {
        1: ("metadata", _META, False),
        2: ("data", "map", False),
        3: ("binaryData", "bytemap", False),
        4: ("immutable", "bool", False),
    },
    "Secret": {
        1: ("metadata", _META, False),
        2: ("data", "bytemap", False),
        3: ("type", "text", False),
        4: ("stringData", "map", False),
        5: ("immutable", "bool", False),
    },
    "ServiceAccount": {1: ("metadata", _META, False)},
    "Role": _ROLE,
    "ClusterRole": _ROLE,
    "RoleBinding": _BINDING,
    "ClusterRoleBinding": _BINDING,
    "DeleteOptions": _DELETE,
    "Eviction": {1: ("metadata", _META, False), 2: ("deleteOptions", _DELETE, False)},
    "SelfSubjectReview": {1: ("metadata", _META, False)},
    "SelfSubjectAccessReview": {
        1: ("metadata", _META, False),
        2: ("spec", {1: ("resourceAttributes", _ASKED, False), 2: ("nonResourceAttributes", _PATHS, False)}, False),
    },
    "SelfSubjectRulesReview": {1: ("metadata", _META, False), 2: ("spec", {1: ("namespace", "text", False)}, False)},
    "TokenRequest": {
        1: ("metadata", _META, False),
        2: ("spec", {1: ("audiences", "text", True), 4: ("expirationSeconds", "int", False)}, False),
    },
    "Lease": {
        1: ("metadata", _META, False),
        2: (
            "spec",
            {
                1: ("holderIdentity", "text", False),
                2: ("leaseDurationSeconds", "int", False),
                3: ("acquireTime", "micro", False),
                4: ("renewTime", "micro", False),
                5: ("leaseTransitions", "int", False),
            },
            False,
        ),
    },
}


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if not byte & 0x80:
            return value, at
        shift += 7


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            number, at = _varint(data, at)
            yield tag >> 3, number
        elif kind == 2:
            size, at = _varint(data, at)
            if at + size > len(data):
                raise ValueError("a field ends behind the message")
            yield tag >> 3, data[at : at + size]
            at += size
        else:
            size = 8 if kind == 1 else 4
            yield tag >> 3, data[at : at + size]
            at += size


def _moment(raw: bytes) -> datetime | None:
    parts = dict(_fields(raw))
    seconds, nanos = parts.get(1, 0), parts.get(2, 0)
    if not isinstance(seconds, int) or not isinstance(nanos, int) or (seconds == 0 and nanos == 0):
        return None
    if seconds >= 1 << 63:
        return None
    return datetime.fromtimestamp(seconds + nanos / 1e9, UTC)


def _value(kind: Any, raw: int | bytes) -> Any:
    if isinstance(kind, dict):
        return _message(kind, raw if isinstance(raw, bytes) else b"")
    if kind == "int":
        return raw
    if kind == "bool":
        return bool(raw)
    if not isinstance(raw, bytes):
        raise ValueError("a number where text was expected")
    if kind in ("time", "micro"):
        moment = _moment(raw)
        return None if moment is None else (now_text(moment) if kind == "time" else micro_text(moment))
    if kind in ("map", "bytemap"):
        entry = dict(_fields(raw))
        key, value = entry.get(1, b""), entry.get(2, b"")
        if not isinstance(key, bytes) or not isinstance(value, bytes):
            raise ValueError("a map entry is no text")
        return {key.decode(): value.decode() if kind == "map" else base64.b64encode(value).decode()}
    return raw.decode()


def _message(shape: Message, data: bytes) -> Obj:
    found: Obj = {}
    for number, raw in _fields(data):
        if number not in shape:
            continue
        name, kind, repeated = shape[number]
        value = _value(kind, raw)
        if kind in ("map", "bytemap"):
            found.setdefault(name, {}).update(value)
        elif repeated:
            found.setdefault(name, []).append(value)
        elif value not in (None, ""):
            found[name] = value
    return found


def decode(body: bytes) -> Obj | None:
    """The object in a body, None for a kind that is not known here; raises ValueError for a broken one."""
    if not body.startswith(_MAGIC):
        raise ValueError("the body does not begin like a Kubernetes protobuf object")
    try:
        envelope = dict(_fields(body[4:]))
        types = envelope.get(1, b"")
        raw = envelope.get(2, b"")
        if not isinstance(types, bytes) or not isinstance(raw, bytes):
            raise ValueError("no envelope")
        names = _message({1: ("apiVersion", "text", False), 2: ("kind", "text", False)}, types)
        shape = _KINDS.get(names.get("kind", ""))
        if shape is None:
            return None
        return {**names, **_message(shape, raw)}
    except (IndexError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from error
