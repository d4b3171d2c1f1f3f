"""What all Proxmox VE activities share: the things they act on, taking a machine, and errors in Temporal's words."""

import functools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import ParamSpec, TypeVar

from temporalio.exceptions import ApplicationError

from activities.proxmox.presence import Sight, look, own_task
from activities.proxmox.sites import SiteClients
from clients.proxmox import (
    AlreadyExists,
    BadParameter,
    Changed,
    Locked,
    NoQuorum,
    NotSupported,
    ProxmoxClient,
    ProxmoxError,
    Refused,
    RightMissing,
)
from clients.proxmox.setup import mending_lines
from domain.clusters import Cluster
from domain.contracts.activities import ClusterRef, Handle, MachineRef
from domain.machines import Machine, Phase
from domain.sites import Site
from store import NotFound, Store, StoreError

P = ParamSpec("P")
T = TypeVar("T")

BUSY_PAUSE = 1.0
"""Seconds before the next look while somebody holds a lock; the workflow lets it grow."""
AWAY_PAUSE = 5.0
"""Seconds before the next look while a node is offline or there is no quorum."""


@dataclass(frozen=True)
class Scene:
    """One cluster at its site, as it is now."""

    site: Site
    client: ProxmoxClient
    cluster: Cluster

    @property
    def pool(self) -> str:
        """Id of the cluster's own pool."""
        return f"{self.site.workload_pool}/{self.cluster.spec.pool_name}"

    @property
    def marker(self) -> str:
        """What the comments of the cluster's pool and user hold: the proof that they are ours."""
        return f"trilithon cluster={self.cluster.id}"


@dataclass(frozen=True)
class MachineScene(Scene):
    """One machine at its site. `attempt` is the number under which this activity holds the machine's row."""

    machine: Machine
    attempt: int = 0

    def of(self, machine: Machine) -> "MachineScene":
        return replace(self, machine=machine)


class Acting:
    """Base of the activity classes.

    Args:
        store: the store.
        sites: the clients of the worker's sites.
        look_every: seconds between two looks at running tasks.
    """

    def __init__(self, store: Store, sites: SiteClients, *, look_every: float = 0.5) -> None:
        self._store = store
        self.sites = sites
        self._look_every = look_every

    async def _scene(self, ref: ClusterRef) -> Scene:
        site, client = await self.sites.by_id(ref.site_id)
        return Scene(site, client, await self._store.clusters.get(ref.cluster_id))

    async def _take(self, ref: MachineRef) -> MachineScene:
        """The machine, taken by compare-and-set: from now on an older attempt that wakes up does not act.

        Taken before the look, so that whoever took last has also looked last.
        """
        scene = await self._scene(ref)
        machine = await self._store.machines.get(ref.machine_id)
        attempt = 0
        if machine.phase is not Phase.GONE:
            attempt = await self._store.machines.take(ref.machine_id)
            machine = await self._store.machines.get(ref.machine_id)
        return MachineScene(scene.site, scene.client, scene.cluster, machine, attempt)

    async def _still_held(self, scene: MachineScene) -> None:
        """Called right before an effect. Raises when a younger attempt has taken the machine meanwhile."""
        if not scene.attempt or not await self._store.machines.holds(scene.machine.id, scene.attempt):
            raise ApplicationError(f"A younger attempt works on {scene.machine.name}.", type="Superseded")

    async def _before_task(self, scene: MachineScene, sight: Sight) -> Handle | None:
        """Called right before a call that becomes a task of the VM: one that we have running already is waited for.

        A task of an earlier attempt may have ended between the look and this question; then the VM is no longer as it
        was seen, and everything is looked at again.
        """
        upid = await own_task(scene.client, sight, scene.machine)
        if upid:
            return Handle(done=False, upid=upid)
        now = await look(scene.client, scene.machine)
        if (now.state, now.node, now.running, now.config) != (sight.state, sight.node, sight.running, sight.config):
            return Handle(done=False, pause=0.05)
        await self._still_held(scene)
        return None

    async def _reach(self, scene: MachineScene, phase: Phase) -> None:
        """Writes how far the machine has been seen to be; never back."""
        if not scene.machine.phase.reached(phase):
            await self._store.machines.advance(scene.machine.id, phase, attempt=scene.attempt)


def waiting(why: str, pause: float = BUSY_PAUSE) -> Handle:
    """Nothing to do but to look again."""
    return Handle(done=False, waiting_for=why, pause=pause)


def after_task(upid: object) -> Handle:
    """The answer after a call that may have become a task: wait for it, or look again at once."""
    if isinstance(upid, str) and upid.startswith("UPID:"):
        return Handle(done=False, upid=upid)
    return Handle(done=False, pause=0.05)


DONE = Handle(done=True)


def final(text: str, kind: str) -> ApplicationError:
    """An error that no repetition mends; `kind` is one of domain.contracts.activities.FINAL_ERRORS."""
    return ApplicationError(text, type=kind, non_retryable=True)


def not_ours(text: str) -> ApplicationError:
    return final(text, "NotOurs")


def effect(
    method: Callable[P, Awaitable[Handle]],
) -> Callable[P, Awaitable[Handle]]:
    """Turns what Proxmox VE says into a Handle (somebody is busy: look again) or an error in Temporal's words."""

    @functools.wraps(method)
    async def spoken(*args: P.args, **kwargs: P.kwargs) -> Handle:
        try:
            return await method(*args, **kwargs)
        except (Locked, Changed) as busy:
            return waiting(busy.text)
        except AlreadyExists as taken:
            return waiting(taken.text)
        except NoQuorum as away:
            return waiting(away.text, AWAY_PAUSE)
        except RightMissing as missing:
            if await _vm_left(missing, args):
                return waiting(missing.text, 0.2)
            raise await _translated(missing, args) from missing
        except (ProxmoxError, StoreError) as error:
            raise await _translated(error, args) from error

    return spoken


def deed(method: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """The same for activities without a Handle: a busy Proxmox VE is an error that is tried again."""

    @functools.wraps(method)
    async def spoken(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await method(*args, **kwargs)
        except (ProxmoxError, StoreError) as error:
            raise await _translated(error, args) from error

    return spoken


async def _translated(error: Exception, args: tuple[object, ...]) -> ApplicationError:
    """The ApplicationError for an error of client or store."""
    if isinstance(error, RightMissing):
        return final(f"{error.text.rstrip('.')}. {await _grant_hint(error, args)}", "RightMissing")
    if isinstance(error, Refused):
        return final(
            f"Proxmox VE refuses our token{await _token_named(args)}: {error.text}. It was revoked, changed or has "
            "expired; give the site a new one (`trilithon site rotate-token`), then retry.",
            "TokenRefused",
        )
    if isinstance(error, BadParameter | NotSupported):
        return final(str(error), "InvalidSpec")
    if isinstance(error, NotFound):
        return final(f"{error}. It was removed while this step ran.", "NotOurs")
    return ApplicationError(str(error), type=type(error).__name__)


async def _vm_left(error: RightMissing, args: tuple[object, ...]) -> bool:
    """True when the right is missing only because the VM has gone, and its pool's rights with it: look again."""
    kind, _, number = error.at.strip("/").partition("/")
    acting, ref = args[0], args[1] if len(args) > 1 else None
    if kind != "vms" or not number.isdigit() or not isinstance(acting, Acting):
        return False
    try:
        _, client = await acting.sites.by_id(str(getattr(ref, "site_id", "")))
        rows = await client.get("cluster/resources", type="vm")
    except (ProxmoxError, StoreError):
        return False
    return not any(int(row.get("vmid") or 0) == int(number) for row in rows)


async def _site_of(args: tuple[object, ...]) -> Site | None:
    acting, ref = args[0], args[1] if len(args) > 1 else None
    if not isinstance(acting, Acting):
        return None
    try:
        site, _ = await acting.sites.by_id(str(getattr(ref, "site_id", "")))
    except StoreError:
        return None
    return site


async def _grant_hint(error: RightMissing, args: tuple[object, ...]) -> str:
    site = await _site_of(args)
    if site is None:
        return ""
    lines = mending_lines(site, error.privilege, error.at)
    return f"On Proxmox VE run: {' ; '.join(lines)} , then retry."


async def _token_named(args: tuple[object, ...]) -> str:
    site = await _site_of(args)
    return f" {site.token_id} of site {site.name}" if site is not None else ""
