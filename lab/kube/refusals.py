"""Refusals of the API: each is a Status object with the code, reason and words that clients look at."""

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
            "reason": self.reason,
            "code": self.code,
        }
        if self.details:
            status["details"] = self.details
        return status


def _details(resource: Resource, name: str, **more: Any) -> Obj:
    found: Obj = {"name": name, "kind": resource.plural, **more}
    if resource.group:
        found["group"] = resource.group
    return found


def not_found(resource: Resource, name: str) -> Refusal:
    return Refusal(404, "NotFound", f'{resource.qualified} "{name}" not found', _details(resource, name))


def no_such_path() -> Refusal:
    return Refusal(404, "NotFound", "the server could not find the requested resource")


def already_exists(resource: Resource, name: str) -> Refusal:
    return Refusal(409, "AlreadyExists", f'{resource.qualified} "{name}" already exists', _details(resource, name))


def conflict(resource: Resource, name: str, why: str) -> Refusal:
    text = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return Refusal(409, "Conflict", text, _details(resource, name))


def stale(resource: Resource, name: str) -> Refusal:
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(resource, name, why)


def failed_precondition(resource: Resource, name: str, label: str, wanted: str, found: str, end: str) -> Refusal:
    """Of a deletion; the real server names the kind here, not the resource."""
    text = (
        f'Operation cannot be fulfilled on {resource.kind}{"." + resource.group if resource.group else ""} "{name}": '
        f"the {label} in the precondition ({wanted}) does not match the {label} in record ({found}). "
        f"The object might have been {end}"
    )
    return Refusal(409, "Conflict", text, _details(resource, name))


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
    return Refusal(415, "UnsupportedMediaType", text, {"causes": [{"message": given}]} if given else None)


def method_not_allowed() -> Refusal:
    text = "the server does not allow this method on the requested resource"
    return Refusal(405, "MethodNotAllowed", text)


def unavailable(message: str) -> Refusal:
    return Refusal(500, "InternalError", f"Internal error occurred: {message}")
