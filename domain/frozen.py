"""The two base classes of every type in `domain/`."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """An immutable value that never leaves one release: unknown fields are a mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Payload(BaseModel):
    """An immutable value that crosses processes of different releases (workflow payloads, stored records).

    Unknown fields are ignored, and every field added after a release has a default, so that an open workflow of an
    older release is still read (docs/decisions/004-payloads.md). Payloads carry references, never secret values.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")
