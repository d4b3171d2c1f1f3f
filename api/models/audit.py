"""The audit: who did what to what, and with which account it was then carried out."""

from datetime import datetime
from typing import Any

from api.models.shapes import Answer


class AuditEntry(Answer):
    """`actor` is the person, `acting_as` the account that acts for them on Proxmox VE after the check."""

    at: datetime
    actor: str
    acting_as: str
    action: str
    object: str
    result: str
    detail: dict[str, Any]
    source: str
