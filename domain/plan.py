"""The planner: from what is wanted and what exists to what is done next.

One pure function answers the preview, the dry-run diff, the preflight and the running job. See `plan`.
"""

from enum import StrEnum

from domain.frozen import Payload


class StepKind(StrEnum):
    """Steps that a cluster job can take. Each is one activity or one child workflow."""

    MAKE_AUTHORITIES = "make-authorities"
    RESERVE_MACHINES = "reserve-machines"
    ENSURE_POOL = "ensure-pool"
    ENSURE_USER = "ensure-user"
    ENSURE_TOKEN = "ensure-token"  # noqa: S105
    GRANT_RIGHTS = "grant-rights"
    CREATE_MACHINE = "create-machine"
    POWER_ON = "power-on"
    AWAIT_API = "await-api"
    INSTALL_CLOUD_CONTROLLER = "install-cloud-controller"
    SET_TAINTS = "set-taints"
    AWAIT_AVAILABLE = "await-available"
    REVOKE_TOKEN = "revoke-token"  # noqa: S105
    REMOVE_MACHINE = "remove-machine"
    DELETE_USER = "delete-user"
    REVOKE_RIGHTS = "revoke-rights"
    DELETE_POOL = "delete-pool"
    FORGET_CLUSTER = "forget-cluster"


class Step(Payload):
    """One thing to do now; `key` is unique within a job."""

    kind: StepKind
    machine_id: str = ""
    name: str = ""
    summary: str = ""

    @property
    def key(self) -> str:
        return f"{self.kind}/{self.machine_id}" if self.machine_id else str(self.kind)
