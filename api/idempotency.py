"""Idempotency keys: the same create sent twice is one create, and both are answered alike."""

import hashlib
from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Header, Response
from pydantic import BaseModel

from api.access import SignedIn
from api.problems import ApiError, Conflicting, Invalid
from domain.errors import ErrorCode
from store import Conflict, InProgress

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=8,
        max_length=128,
        description="Chosen by the client for one create; repeated with each repetition of the same request.",
    ),
]
Answer = tuple[int, BaseModel]


async def once(caller: SignedIn, key: str | None, request: str, work: Callable[[], Awaitable[Answer]]) -> Response:
    """Does the work, or repeats the answer that the first request with this key got.

    `request` is everything that makes it the same request. A refusal is not kept: what was refused may be mended and
    sent again with the same key. Answers are kept for a day, so they must not hold secrets.
    """
    if key is None:
        return _response(*await work())
    box = caller.services.store.idempotency
    owner = f"{caller.person.site_id or 'local'}/{caller.person.user}"
    digest = hashlib.sha256(f"{caller.request.method} {caller.request.url.path}\n{request}".encode()).hexdigest()
    try:
        stored = await box.remember(key, owner, digest)
    except InProgress as error:
        raise Conflicting(
            ErrorCode.CONFLICT,
            "The same request is being answered right now.",
            "Ask again in a moment.",
            headers={"Retry-After": "1"},
        ) from error
    except Conflict as error:
        raise Invalid(
            ErrorCode.IDEMPOTENCY_REUSED,
            "This idempotency key came with another request before.",
            "Use a new key for each new request.",
        ) from error
    if stored is not None:
        return Response(
            stored.body,
            status_code=stored.status,
            media_type="application/json",
            headers={"Idempotency-Replayed": "true"},
        )
    try:
        status, body = await work()
    except ApiError:
        await box.drop(key, owner)
        raise
    await box.complete(key, owner, status, body.model_dump_json())
    return _response(status, body)


def _response(status: int, body: BaseModel) -> Response:
    return Response(body.model_dump_json(), status_code=status, media_type="application/json")
