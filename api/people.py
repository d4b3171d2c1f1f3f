"""Who a request comes from."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Person:
    """The person of a session. `user` is the Proxmox VE user id (`dev@pve`), or the local administrator's name."""

    user: str
    local: bool
    site_id: str | None
    session_id: str

    @property
    def known_as(self) -> str:
        """The name in audit and revisions; a local name can never pass for one of a realm."""
        return f"{self.user} (local)" if self.local else self.user
