"""Refusals and failures as `application/problem+json`: what happened to what, and what can be done.

ApiError
 ├── NotSignedIn        401  no session, or it ended
 ├── SignInRefused      401  one message for every wrong name or password
 ├── Unsupported        401  a realm type or second factor that is not built yet, by its name
 ├── TooManyAttempts    429  with Retry-After
 ├── RightMissing       403  names privilege and path
 ├── NotFound           404  the same for 'does not exist' and 'may not be seen'
 ├── Malformed          400  cannot be read at all
 ├── Invalid            422  violations, all at once
 ├── Conflicting        409  name taken, stale version, still in use
 ├── NotBuilt           501  accepted nowhere yet, named
 ├── ProxmoxRefused     502  with Proxmox VE's own text
 └── Away               503  Proxmox VE, the engine or the store does not answer; with Retry-After

The codes are those of `domain.errors`, where a table says when each is used.

Every other exception is a fault of ours: it gets a reference id, which stands in the log beside the traceback.
Neither the answer nor the log repeats request bodies, headers or cookies, since those carry passwords.
"""

import secrets
from collections.abc import Mapping, Sequence
from http import HTTPStatus

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from api.models.problems import Problem, Violation
from api.models.shapes import Missing
from domain.errors import ErrorCode
from store import AlreadyExists, Conflict, InUse, StoreUnavailable
from store import NotFound as NotInStore

MEDIA_TYPE = "application/problem+json"
log = structlog.get_logger("trilithon.api")


class ApiError(Exception):
    """A refusal or failure that a person can act on. `code` is stable; `detail` says what happened to what."""

    status = 400
    title = "The request was refused"

    def __init__(
        self,
        code: ErrorCode,
        detail: str,
        remedy: str = "",
        *,
        violations: Sequence[Violation] = (),
        missing: Missing | None = None,
        raw: str = "",
        headers: Mapping[str, str] | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.remedy = remedy
        self.violations = tuple(violations)
        self.missing = missing
        self.raw = raw
        self.headers = dict(headers or {})
        if status is not None:
            self.status = status

    def problem(self) -> Problem:
        return Problem(
            title=self.title,
            status=self.status,
            code=self.code,
            detail=self.detail,
            remedy=self.remedy,
            violations=list(self.violations),
            missing=self.missing,
            raw=self.raw,
        )


class NotSignedIn(ApiError):
    status = 401
    title = "Not signed in"


class SignInRefused(ApiError):
    status = 401
    title = "Sign-in was refused"


class Unsupported(ApiError):
    """A realm type or second factor, named: it is not the password that was wrong."""

    status = 401
    title = "Not supported yet"


class TooManyAttempts(ApiError):
    status = 429
    title = "Too many attempts"


class RightMissing(ApiError):
    status = 403
    title = "A right is missing"


class NotFound(ApiError):
    status = 404
    title = "Not found"


class Malformed(ApiError):
    status = 400
    title = "The request cannot be read"


class Invalid(ApiError):
    status = 422
    title = "Some values are not valid"


class Conflicting(ApiError):
    status = 409
    title = "In conflict with what is there"


class NotBuilt(ApiError):
    status = 501
    title = "Not built yet"


class Away(ApiError):
    """What we need does not answer; nothing was changed. `Retry-After` in seconds."""

    status = 503
    title = "Something that is needed does not answer"

    def __init__(self, code: ErrorCode, detail: str, remedy: str = "", *, raw: str = "", retry_after: int = 5) -> None:
        super().__init__(code, detail, remedy, raw=raw, headers={"Retry-After": str(retry_after)})


class ProxmoxRefused(ApiError):
    status = 502
    title = "Proxmox VE refused"


def not_built(what: str) -> NotBuilt:
    """A capability that this release names but does not have."""
    return NotBuilt(ErrorCode.NOT_BUILT, f"{what} is not built yet.", "Watch the release notes; nothing was changed.")


def answer(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """The problem as an HTTP answer."""
    return Response(
        problem.model_dump_json(exclude_none=True),
        status_code=problem.status,
        media_type=MEDIA_TYPE,
        headers=dict(headers or {}),
    )


def from_validation(error: RequestValidationError) -> ApiError:
    """FastAPI's own findings about a request as violations. The refused value itself is left out: it may be secret."""
    violations = [
        Violation(
            path=".".join(str(part) for part in item["loc"]),
            code=str(item["type"]).replace("_", "-"),
            message=str(item["msg"]),
        )
        for item in error.errors()
    ]
    where = "body" if any(violation.path.startswith("body") for violation in violations) else "address"
    return Invalid(
        ErrorCode.INVALID_REQUEST,
        f"The {where} of the request does not have the form that this address takes.",
        "Correct the values named in `violations`; the form is described in the OpenAPI document.",
        violations=violations,
    )


async def _on_api_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)  # noqa: S101 - registered for this class only
    return answer(error.problem(), error.headers)


async def _on_store_error(_: Request, error: Exception) -> Response:
    """What a route did not expect of the store. Down is down; the others mean that somebody was faster."""
    if isinstance(error, StoreUnavailable):
        away = Away(
            ErrorCode.STORE_UNAVAILABLE,
            "The database does not answer; the request was not carried out.",
            "Try again in a moment.",
        )
        return answer(away.problem(), away.headers)
    changed = Conflicting(
        ErrorCode.CONFLICT, "This was changed by somebody else meanwhile.", "Read it again, then try again."
    )
    return answer(changed.problem())


async def _on_validation(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    return answer(from_validation(error).problem())


async def _on_http(request: Request, error: Exception) -> Response:
    """Refusals of the framework itself: no such address, method not allowed, body too large."""
    assert isinstance(error, HTTPException)  # noqa: S101
    status = HTTPStatus(error.status_code)
    if status is HTTPStatus.NOT_FOUND:
        return answer(no_such_address().problem())
    problem = Problem(
        title=status.phrase,
        status=status.value,
        code=ErrorCode.INVALID_REQUEST,
        detail=f"{request.method} is not possible here: {status.description or status.phrase}.",
        remedy="The OpenAPI document lists every address with its methods.",
    )
    return answer(problem, error.headers)


def no_such_address() -> NotFound:
    return NotFound(
        ErrorCode.NOT_FOUND, "There is nothing at this address.", "The OpenAPI document lists every address."
    )


def unexpected(request: Request, error: BaseException) -> Response:
    """A fault of ours: logged with a reference that the person can tell us, without what they sent."""
    reference = secrets.token_hex(6)
    log.error(
        "request failed",
        reference=reference,
        method=request.method,
        path=request.url.path,
        error=type(error).__name__,
        where=_where(error),
    )
    return answer(
        Problem(
            title="A fault in Trilithon",
            status=500,
            code=ErrorCode.INTERNAL,
            detail=f"{request.method} {request.url.path} ended in a fault of Trilithon's own ({type(error).__name__}).",
            remedy=f"Look for {reference} in the server's log, and report it with the lines around it.",
            reference=reference,
        )
    )


def _where(error: BaseException) -> list[str]:
    """The call chain as `file:line function`, without values: an exception's text may quote a secret."""
    places = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{code.co_filename.rsplit('/', 1)[-1]}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    return places[-12:]


def install(app: FastAPI) -> None:
    """Registers the handlers. Unexpected errors are caught by the middleware in `api.headers`."""
    app.add_exception_handler(ApiError, _on_api_error)
    for kind in (StoreUnavailable, Conflict, NotInStore, InUse, AlreadyExists):
        app.add_exception_handler(kind, _on_store_error)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(HTTPException, _on_http)
