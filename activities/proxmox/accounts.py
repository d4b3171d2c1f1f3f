"""What a cluster owns besides its machines: its pool, and the account of its controllers with token and rights.

The order when a cluster goes is fixed: the token first (a refused token harms nothing), the rights and the pool last
(a controller whose rights are gone takes its machines for deleted and removes their nodes: facts/proxmox-addons.md B).
Pool and user carry `trilithon cluster=<id>` in their comment; what does not is never touched.
"""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from temporalio import activity

from activities import journal
from activities.proxmox.acting import AWAY_PAUSE, DONE, Acting, Scene, deed, effect, final, not_ours, waiting
from clients.proxmox import AlreadyExists, BadParameter, NotThere, ProxmoxError, RightMissing
from clients.proxmox.setup import (
    CLUSTER_PRIVILEGES,
    CLUSTER_ROLE,
    CLUSTER_STORAGE_PRIVILEGES,
    CLUSTER_STORAGE_ROLE,
    role_line,
)
from domain.clusters import Mark
from domain.contracts import activities as names
from domain.contracts.activities import ClusterRef, Handle

TOKEN_NAME = "cluster"  # noqa: S105 - the token's name
TOKEN_SECRET = "proxmox-token"  # noqa: S105 - where it lies in the box, as `<token id>=<value>`

Row = Mapping[str, Any]


def user_of(cluster_id: str) -> str:
    """The cluster's own account, the same at every attempt."""
    return f"trilithon-{hashlib.sha256(cluster_id.encode()).hexdigest()[:8]}@pve"


class Accounts(Acting):
    """proxmox.ensure_pool, ensure_user, ensure_token, grant_rights and their undoing."""

    @activity.defn(name=names.ENSURE_POOL)
    @deed
    async def ensure_pool(self, ref: ClusterRef) -> None:
        """Makes the cluster's pool below the site's workload pool.

        Effect: a pool with our marker in its comment.
        Key: the pool's id, `<workload pool>/<namespace>.<name>`.
        Done-when: the pool is there and carries the marker.
        Final: a pool of that name is somebody else's.
        """
        scene = await self._scene(ref)
        if await self._own_pool(scene) is None:
            try:
                await scene.client.post("pools", poolid=scene.pool, comment=scene.marker)
            except AlreadyExists:
                if await self._own_pool(scene) is None:
                    raise
        await self._mark(scene, Mark.POOL)

    @activity.defn(name=names.ENSURE_USER)
    @deed
    async def ensure_user(self, ref: ClusterRef) -> None:
        """Makes the account of the cluster's controllers; it has no password, so nobody can sign in with it.

        Effect: a user of realm pve with our marker in its comment.
        Key: the user's id, made of the cluster's id.
        Done-when: the user is there and carries the marker.
        Final: the user is somebody else's.
        """
        scene = await self._scene(ref)
        if await self._own_user(scene) is None:
            try:
                await scene.client.post("access/users", userid=user_of(scene.cluster.id), comment=scene.marker)
            except AlreadyExists:
                if await self._own_user(scene) is None:
                    raise
        await self._mark(scene, Mark.USER)

    @activity.defn(name=names.ENSURE_TOKEN)
    @deed
    async def ensure_token(self, ref: ClusterRef) -> None:
        """Makes the cluster's API token. Its value is told once, so it is kept before anything else happens.

        Effect: a token of the cluster's user, its value in the secret box.
        Key: the token's id, `<user>!cluster`.
        Done-when: the token is there and the box has a value. A token whose value was lost is made anew.
        Final: the user is somebody else's.
        """
        scene = await self._scene(ref)
        scope = f"cluster/{scene.cluster.id}"
        path = _token_path(scene)
        if await self._own_user(scene) is None:
            raise final(f"The user {user_of(scene.cluster.id)} is gone. Retry.", "NotOurs")
        there = await self._token_there(scene)
        if not (there and await self._store.secrets.has(scope, TOKEN_SECRET)):
            # An older value must not outlive the token that it belonged to, wherever we die from here on.
            await self._store.secrets.delete(scope, TOKEN_SECRET)
            if there:
                await scene.client.delete(path)
            answer = await scene.client.post(path, privsep=False, comment=scene.marker)
            token_id = str(answer.get("full-tokenid") or f"{user_of(scene.cluster.id)}!{TOKEN_NAME}")
            await self._store.secrets.put(scope, TOKEN_SECRET, f"{token_id}={answer['value']}".encode())
        await self._mark(scene, Mark.TOKEN)

    @activity.defn(name=names.GRANT_RIGHTS)
    @deed
    async def grant_rights(self, ref: ClusterRef) -> None:
        """Gives the cluster's account its two fixed roles: on its pool, and on its storage.

        Effect: two entries of the access control list.
        Key: path, role and user.
        Done-when: both entries are listed.
        Final: the site's roles were not made.
        """
        scene = await self._scene(ref)
        have = await self._own_acl(scene)
        for path, role in _rights(scene):
            if (path, role) not in have:
                await self._grant(scene, path, role)
        await self._mark(scene, Mark.RIGHTS)

    @activity.defn(name=names.REVOKE_TOKEN)
    @deed
    async def revoke_token(self, ref: ClusterRef) -> None:
        """Deletes the cluster's token: the first thing that goes.

        Effect: the token, and its value in the secret box.
        Key: the token's id.
        Done-when: user or token is not there.
        Final: none of its own.
        """
        scene = await self._scene(ref)
        if await self._own_user(scene, strange_is_none=True) is not None and await self._token_there(scene):
            try:
                await scene.client.delete(_token_path(scene))
            except (NotThere, BadParameter):
                if await self._token_there(scene):
                    raise
        await self._store.secrets.delete(f"cluster/{scene.cluster.id}", TOKEN_SECRET)
        await self._mark(scene, Mark.TOKEN_REVOKED)

    @activity.defn(name=names.DELETE_USER)
    @deed
    async def delete_user(self, ref: ClusterRef) -> None:
        """Deletes the cluster's account.

        Effect: the user, with any token that it still has.
        Key: the user's id and our marker.
        Done-when: there is no such user, or it is not ours.
        Final: none of its own.
        """
        scene = await self._scene(ref)
        if await self._own_user(scene, strange_is_none=True) is not None:
            with suppress(NotThere):
                await scene.client.delete(f"access/users/{user_of(scene.cluster.id)}")
        await self._mark(scene, Mark.USER_DELETED)

    @activity.defn(name=names.REVOKE_RIGHTS)
    @deed
    async def revoke_rights(self, ref: ClusterRef) -> None:
        """Takes back what rights are still listed for the cluster's account; deleting it took most of them along.

        Effect: entries of the access control list that name the cluster's account.
        Key: path, role and user.
        Done-when: none is listed.
        Final: none of its own.
        """
        scene = await self._scene(ref)
        for path, role in await self._own_acl(scene):
            user = user_of(scene.cluster.id)
            await scene.client.put("access/acl", path=path, roles=role, users=user, delete=True)
        await self._mark(scene, Mark.RIGHTS_REVOKED)

    @activity.defn(name=names.DELETE_POOL)
    @effect
    async def delete_pool(self, ref: ClusterRef) -> Handle:
        """Deletes the cluster's pool, when nothing is in it any more.

        Effect: the pool.
        Key: the pool's id and our marker.
        Done-when: there is no such pool, or it is not ours.
        Final: none of its own.
        """
        scene = await self._scene(ref)
        try:
            pool = await self._own_pool(scene)
        except Exception as strange:
            if getattr(strange, "type", "") != "NotOurs":
                raise
            await journal.log(f"The pool {scene.pool} is not ours and stays.", "warning")
            pool = None
        if pool is None:
            await self._mark(scene, Mark.POOL_DELETED)
            return DONE
        members = [_member(row) for row in pool.get("members") or ()]
        if members:
            shown = ", ".join(members[:3]) + (" and more" if len(members) > 3 else "")
            return waiting(f"pool {scene.pool} still holds {shown}; move it elsewhere", AWAY_PAUSE)
        with suppress(NotThere):
            await scene.client.delete("pools", poolid=scene.pool)
        return Handle(done=False, pause=0.05)

    async def _mark(self, scene: Scene, mark: Mark) -> None:
        """Tells the planner that this has been seen done."""
        await self._store.clusters.add_marks(scene.cluster.id, mark)

    # --- looks ---

    async def _own_pool(self, scene: Scene) -> Row | None:
        """The cluster's pool, None where there is none. Raises NotOurs for somebody else's."""
        try:
            answer = await scene.client.get("pools", poolid=scene.pool)
        except NotThere:
            return None
        pool: Row = answer[0] if isinstance(answer, list) else answer
        if not _carries(pool, scene):
            raise not_ours(
                f"There is a pool {scene.pool} that is not of this cluster (its comment says so). Rename the cluster, "
                "or remove that pool, then retry."
            )
        return pool

    async def _own_user(self, scene: Scene, *, strange_is_none: bool = False) -> Row | None:
        user = user_of(scene.cluster.id)
        try:
            row: Row = await scene.client.get(f"access/users/{user}")
        except NotThere:
            return None
        if not _carries(row, scene):
            if strange_is_none:
                return None
            raise not_ours(f"The user {user} is not of this cluster (its comment says so). Remove it, then retry.")
        return row

    async def _token_there(self, scene: Scene) -> bool:
        try:
            await scene.client.get(_token_path(scene))
        except (NotThere, BadParameter):
            return False
        return True

    async def _own_acl(self, scene: Scene) -> set[tuple[str, str]]:
        """Path and role of every entry that names the cluster's user, as far as our account may see them."""
        rows = await scene.client.get("access/acl")
        user = user_of(scene.cluster.id)
        return {
            (str(row["path"]), str(row["roleid"]))
            for row in rows
            if row.get("type") == "user" and row.get("ugid") == user
        }

    async def _grant(self, scene: Scene, path: str, role: str) -> None:
        user = user_of(scene.cluster.id)
        try:
            await scene.client.put("access/acl", path=path, roles=role, users=user, propagate=True)
        except RightMissing:
            raise
        except ProxmoxError as error:
            if role in error.text and "role" in error.text and not error.retry:
                privileges = CLUSTER_PRIVILEGES if role == CLUSTER_ROLE else CLUSTER_STORAGE_PRIVILEGES
                raise final(
                    f"{error.text} Run on Proxmox VE: {role_line(role, privileges)} , then retry.", "RightMissing"
                ) from error
            raise


def _rights(scene: Scene) -> list[tuple[str, str]]:
    return [
        (f"/pool/{scene.pool}", CLUSTER_ROLE),
        (f"/storage/{scene.cluster.spec.storage}", CLUSTER_STORAGE_ROLE),
    ]


def _token_path(scene: Scene) -> str:
    return f"access/users/{user_of(scene.cluster.id)}/token/{TOKEN_NAME}"


def _carries(row: Row, scene: Scene) -> bool:
    """True when the comment holds our marker as words of its own; people may add to it."""
    words = str(row.get("comment") or "").split()
    marker = scene.marker.split()
    return any(words[start : start + len(marker)] == marker for start in range(len(words)))


def _member(row: Row) -> str:
    if row.get("vmid"):
        return f"VM {row['vmid']} ({row.get('name') or 'without a name'})"
    return str(row.get("id") or row.get("storage") or "something")
