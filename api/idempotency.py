"""Idempotency keys: the same create sent twice is one create, and both are answered alike."""

from typing import Annotated

from fastapi import Header

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=8,
        max_length=128,
        description="Chosen by the client for one create; repeated with each repetition of the same request.",
    ),
]
