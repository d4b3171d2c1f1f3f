"""Refusals of the API: each is a Status object with the code, reason and words that clients look at."""

import json
from typing import Any

from lab.kube.objects import Obj
from lab.kube.resources import Resource


class Refusal(Exception):
    """An answer other than success; `body` is the Status object to send."""

    def __init__(
        self, code: int, reason: str, message: str, details: Obj | None = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = headers or {}

    @property
    def body(self) -> Obj:
        """The `Status` that the client gets."""
        status: Obj = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        return status


def _details(resource: Resource, name: str, **more: Any) -> Obj:
    found: Obj = {"kind": resource.plural, **more}
    if name:
        found["name"] = name
    if resource.group:
        found["group"] = resource.group
    return found


def not_found(resource: Resource, name: str) -> Refusal:
    return Refusal(404, "NotFound", f'{resource.qualified} "{name}" not found', _details(resource, name))


def no_such_path() -> Refusal:
    return Refusal(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(resource: Resource, name: str) -> Refusal:
    return Refusal(409, "AlreadyExists", f'{resource.qualified} "{name}" already exists', _details(resource, name))


def conflict(resource: Resource, name: str, why: str) -> Refusal:
    text = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return Refusal(409, "Conflict", text, _details(resource, name))


def stale(resource: Resource, name: str) -> Refusal:
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(resource, name, why)


def failed_precondition(resource: Resource, name: str, label: str, wanted: str, found: Any, end: str) -> Refusal:
    """Of a deletion; the real server names the kind here, not the resource."""
    text = (
        f'Operation cannot be fulfilled on {resource.kind}{"." + resource.group if resource.group else ""} "{name}": '
        f"the {label} in the precondition ({wanted}) does not match the {label} in record ({found}). "
        f"The object might have been {end}"
    )
    return Refusal(409, "Conflict", text, {**_details(resource, name), "kind": resource.kind})


def unconditional(resource: Resource, name: str, why: str) -> Refusal:
    """422 for an update that names no revision; the real server names the resource here, not the kind."""
    field = "metadata.resourceVersion"
    causes = [{"reason": "FieldValueInvalid", "message": why, "field": field}]
    text = f'{resource.qualified} "{name}" is invalid: {field}: {why}'
    return Refusal(422, "Invalid", text, _details(resource, name, causes=causes))


def invalid(resource: Resource, name: str, *causes: tuple[str, str, str]) -> Refusal:
    """`causes` are (field, reason, message), for example (`metadata.name`, `FieldValueRequired`, `Required value`)."""
    words = [f"{field}: {message}" for field, _, message in causes]
    text = words[0] if len(words) == 1 else f"[{', '.join(words)}]"
    listed = [{"reason": reason, "message": message, "field": field} for field, reason, message in causes]
    group = f".{resource.group}" if resource.group else ""
    return Refusal(
        422,
        "Invalid",
        f'{resource.kind}{group} "{name}" is invalid: {text}',
        {**_details(resource, name, causes=listed), "kind": resource.kind},
    )


def bad_request(message: str) -> Refusal:
    return Refusal(400, "BadRequest", message)


def unauthorized() -> Refusal:
    return Refusal(401, "Unauthorized", "Unauthorized")


def expired(message: str) -> Refusal:
    """410: the history that was asked for is gone."""
    return Refusal(410, "Expired", message)


def unsupported_media(given: str, wanted: str) -> Refusal:
    text = f"the body of the request was in an unknown format - accepted media types include: {wanted}"
    return Refusal(415, "UnsupportedMediaType", text, {})


def wrong_name(found: str, wanted: str) -> Refusal:
    return bad_request(f"the name of the object ({found}) does not match the name on the URL ({wanted})")


def other_namespace() -> Refusal:
    return bad_request("the namespace of the provided object does not match the namespace sent on the request")


def other_kind(version: str, kind: str, wanted: Resource) -> Refusal:
    start = f'{kind} in version "{version}" cannot be handled as a {wanted.kind}: '
    if kind == wanted.kind:
        return bad_request(start + f'no kind "{kind}" is registered for version "{version}" in the scheme')
    return bad_request(start + f"converting ({version}.{kind}) to ({wanted.kind}): unknown conversion")


def terminating(resource: Resource, name: str, namespace: str) -> Refusal:
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    message = f"namespace {namespace} is being terminated"
    causes = [{"reason": "NamespaceTerminating", "message": message, "field": "metadata.namespace"}]
    text = f'{resource.qualified} "{name}" is forbidden: {why}'
    return Refusal(403, "Forbidden", text, _details(resource, name, causes=causes))


def patch_error(text: str, applies: bool) -> Refusal:
    """`applies` is True for a JSON patch that can be read and does not fit: the real server does not say why."""
    if applies:
        return Refusal(422, "Invalid", "the server rejected our request due to an error in our request", {})
    return bad_request(text)


def undecodable_patch(result: Obj, why: str) -> Refusal:
    """422 for a patch that leaves what cannot be decoded into the kind."""
    message = f"Invalid value: {json.dumps(json.dumps(result))}: {why.partition(': ')[2]}"
    causes = [{"reason": "FieldValueInvalid", "message": message, "field": "patch"}]
    return Refusal(422, "Invalid", f' "" is invalid: patch: {message}', {"causes": causes})


def bad_options(kind: str, field: str, reason: str, message: str) -> Refusal:
    """422 for a query parameter; `kind` is `PatchOptions` or its kin."""
    causes = [{"reason": reason, "message": message, "field": field}]
    text = f'{kind}.meta.k8s.io "" is invalid: {field}: {message}'
    return Refusal(422, "Invalid", text, {"group": "meta.k8s.io", "kind": kind, "causes": causes})


def future(wanted: int, now: int) -> Refusal:
    """504 for a revision that is not there yet."""
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    text = f"Timeout: Too large resource version: {wanted}, current: {now}"
    return Refusal(504, "Timeout", text, {"causes": causes, "retryAfterSeconds": 1}, {"Retry-After": "1"})


def bad_revision(text: str) -> Refusal:
    return bad_request(
        f'invalid resource version: resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": '
        "invalid syntax"
    )


def method_not_allowed() -> Refusal:
    text = "the server does not allow this method on the requested resource"
    return Refusal(405, "MethodNotAllowed", text, {})


def unavailable(message: str) -> Refusal:
    return Refusal(500, "InternalError", f"Internal error occurred: {message}")
