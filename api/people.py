"""Who a request comes from: the session behind its cookie."""

from dataclasses import dataclass

from fastapi import Request

from api.services import Services


@dataclass(frozen=True)
class Person:
    """The person of a session. `user` is the Proxmox VE user id (`dev@pve`), or the local administrator's name."""

    user: str
    local: bool
    site_id: str | None
    session_id: str


async def person_of(request: Request, services: Services) -> Person:
    raise NotImplementedError
