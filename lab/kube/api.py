"""One cluster's objects and what may be done with them: the API without its HTTP."""

import secrets as randomness
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.kube import admission, ownership, patches, refusals, rules
from lab.kube.access import Attempt, Authoriser, default_roles
from lab.kube.identity import Identity, TokenSigner
from lab.kube.objects import Key, Obj, clone, key_of, meta, now_text
from lab.kube.outcomes import apply_refusal, deleted_status, etcd_key, graceful, group_kind, unchanged
from lab.kube.ownership import ApplyConflict
from lab.kube.refusals import Refusal
from lab.kube.resources import Registry, Resource, Target
from lab.kube.storage import ObjectStore

SYSTEM = Identity("system:apiserver", ("system:masters",))
_SHOWN_WHEN_DELETED = {"pods", "services", "serviceaccounts", "persistentvolumes", "persistentvolumeclaims"}
_UPDATE_NEEDS_REVISION = {"leases", "customresourcedefinitions", "apiservices"}


@dataclass(frozen=True)
class Call:
    """Who asks, under which field manager, and whether only to try."""

    identity: Identity = SYSTEM
    manager: str = "lab"
    dry_run: bool = False


@dataclass(frozen=True)
class Patch:
    """A patch and its kind: `json`, `merge`, `strategic` or `apply`."""

    kind: str
    body: Any
    force: bool = False


class KubeApi:
    """The API of one cluster over one object store.

    `controllers` switches on what the controller manager does at once here: default ServiceAccounts, garbage
    collection, namespace removal.
    """

    def __init__(self, version: str, service_key: bytes, root_ca: str = "", journal: Path | None = None) -> None:
        self.version = version
        self.root_ca = root_ca
        self.store = ObjectStore(journal)
        self.registry = Registry()
        self.authoriser = Authoriser(self)
        self.signer = TokenSigner(service_key)
        self.after: list[Callable[[str, Resource, Obj], None]] = []
        """Called with the kind of change (created, updated, removed), after it was stored."""
        from lab.kube.controllers import Controllers

        loaded = self.store.load()
        Controllers(self)
        if loaded:
            self._learn_custom_kinds()
        else:
            self.bootstrap()

    def bootstrap(self) -> None:
        """The objects that a new cluster has before anybody asks."""
        for name in ("default", "kube-system", "kube-public", "kube-node-lease"):
            self.ensure({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for role in default_roles():
            self.ensure(role)
        for name, value in (("system-node-critical", 2000001000), ("system-cluster-critical", 2000000000)):
            self.ensure(
                {
                    "apiVersion": "scheduling.k8s.io/v1",
                    "kind": "PriorityClass",
                    "metadata": {"name": name},
                    "value": value,
                }
            )
        self.store.compact()

    def _learn_custom_kinds(self) -> None:
        definitions = self.registry.named("customresourcedefinitions", "apiextensions.k8s.io")
        for definition in self.store.rows(definitions.storage):
            for hook in self.after:
                hook("created", definitions, definition)

    # reading, also for our own components

    def find(self, plural: str, namespace: str, name: str, group: str | None = None) -> Obj | None:
        resource = self._resource(plural, group)
        return self.store.get(resource.storage, (namespace, name))

    def rows(self, plural: str, namespace: str = "", group: str | None = None) -> list[Obj]:
        return self.store.rows(self._resource(plural, group).storage, namespace)

    def _resource(self, plural: str, group: str | None) -> Resource:
        if group is not None:
            return self.registry.named(plural, group)
        return next(item for item in self.registry.all() if item.plural == plural)

    def read(self, target: Target) -> Obj:
        """The object that the path names; raises Refusal 404."""
        found = self.store.get(target.resource.storage, (target.namespace, target.name))
        if found is None:
            raise refusals.not_found(target.resource, target.name)
        return found

    # writing

    def create(self, target: Target, body: Obj, call: Call) -> Obj:
        resource = target.resource
        obj = self._decoded(resource, body)
        data = obj["metadata"]
        if resource.namespaced:
            given = data.setdefault("namespace", target.namespace)
            if given != target.namespace:
                raise refusals.other_namespace()
            self._demand_namespace(target.namespace, resource, str(data.get("name") or ""))
        else:
            data.pop("namespace", None)
        if not data.get("name") and data.get("generateName"):
            data["name"] = data["generateName"] + randomness.token_hex(3)[:5]
        if data.get("resourceVersion"):
            raise Refusal(500, "", "resourceVersion should not be set on objects to be created")
        if "status" in resource.subresources and resource.plural not in ("namespaces", "nodes", "pods"):
            obj.pop("status", None)
        admission.of_creation(call.identity, resource, obj)
        rules.fill(resource, obj)
        rules.check(resource, obj)
        if self.store.get(resource.storage, key_of(obj)) is not None:
            raise refusals.already_exists(resource, data["name"])
        self._guard_roles(resource, None, obj, call)
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"):
            data.pop(field, None)
        data["uid"] = str(uuid.uuid4())
        data["creationTimestamp"] = now_text()
        if resource.group in rules.GENERATED or resource.custom:
            data["generation"] = 1
        ownership.note_update(None, obj, call.manager)
        return self._stored("created", resource, obj, call)

    def update(self, target: Target, body: Obj, call: Call) -> Obj:
        """Replaces the object, or with a subresource its part."""
        old = self.store.get(target.resource.storage, (target.namespace, target.name))
        obj = self._decoded(target.resource, body)
        if old is None:
            if target.resource.plural == "leases" and not target.subresource:
                obj["metadata"].pop("resourceVersion", None)
                return self.create(Target(target.resource, target.namespace), obj, call)
            raise refusals.not_found(target.resource, target.name)
        if meta(obj).get("name") != target.name:
            raise refusals.wrong_name(str(meta(obj).get("name")), target.name)
        given = meta(obj).get("resourceVersion")
        needs = target.resource.custom or target.resource.plural in _UPDATE_NEEDS_REVISION
        if not given and needs:
            why = "Invalid value: 0: must be specified for an update"
            raise refusals.unconditional(target.resource, target.name, why)
        return self._replace(target, old, obj, call)

    def patch(self, target: Target, patch: Patch, call: Call) -> tuple[Obj, bool]:
        """Applies a patch; returns the object and whether it was created (only `apply` creates)."""
        resource = target.resource
        old = self.store.get(resource.storage, (target.namespace, target.name))
        if patch.kind == "apply":
            return self._apply(target, old, patch, call)
        if old is None:
            raise refusals.not_found(resource, target.name)
        try:
            new = patches.apply_to(old, patch.kind, patch.body)
        except patches.PatchError as error:
            raise refusals.patch_error(str(error), applies=patch.kind == "json" and error.understood) from error
        named, space = meta(new).get("name"), meta(new).get("namespace") or ""
        if not named:
            text = f"the name of the object ({target.name} based on URL) was undeterminable: name must be provided"
            raise refusals.bad_request(text)
        if named != target.name:
            raise refusals.wrong_name(str(named), target.name)
        if space != target.namespace:
            raise refusals.other_namespace()
        if meta(new).get("uid") not in (None, meta(old)["uid"]):
            why = f'Invalid value: "{meta(new)["uid"]}": field is immutable'
            raise refusals.invalid(resource, target.name, ("metadata.uid", "FieldValueInvalid", why))
        if patch.kind != "json" and meta(patch.body).get("resourceVersion") is None:
            new["metadata"]["resourceVersion"] = meta(old)["resourceVersion"]
        try:
            return self._replace(target, old, self._decoded(resource, new), call), False
        except Refusal as refusal:
            if refusal.code == 400 and " cannot be handled as " in refusal.message:
                raise refusals.undecodable_patch(new, refusal.message) from refusal
            raise

    def _apply(self, target: Target, old: Obj | None, patch: Patch, call: Call) -> tuple[Obj, bool]:
        resource = target.resource
        config = rules.without_nulls(patch.body)
        if not isinstance(config, dict) or config.get("kind") != resource.kind:
            named = (config.get("apiVersion", ""), config.get("kind", "")) if isinstance(config, dict) else ("", "")
            raise refusals.bad_request(f"invalid object type: {group_kind(*named)}")
        found = config.setdefault("metadata", {}).get("name")
        if not found:
            text = f"the name of the object ({target.name} based on URL) was undeterminable: name must be provided"
            raise refusals.bad_request(text)
        if (config["metadata"].get("namespace") or target.namespace) != target.namespace:
            raise refusals.other_namespace()
        if found != target.name and old is None:
            raise refusals.wrong_name(found, target.name)
        if config["metadata"].get("managedFields"):
            raise refusals.bad_request("metadata.managedFields must be nil")
        if resource.plural == "secrets" and config.get("stringData"):
            rules.fill(resource, config)
        if target.subresource == "status":
            config.pop("spec", None)
        elif "status" in resource.subresources:
            config.pop("status", None)
        try:
            merged = ownership.apply(old, config, call.manager, patch.force, target.subresource)
        except ApplyConflict as problem:
            raise apply_refusal(problem) from problem
        if found != target.name:
            raise refusals.wrong_name(found, target.name)
        if old is None:
            if target.subresource:
                raise refusals.not_found(resource, target.name)
            fields = merged["metadata"].pop("managedFields", [])
            merged["metadata"].pop("resourceVersion", None)
            created = self.create(
                Target(resource, target.namespace), merged, Call(call.identity, call.manager, dry_run=True)
            )
            created["metadata"]["managedFields"] = fields
            return self._stored("created", resource, created, call), True
        given = meta(config).get("resourceVersion")
        merged["metadata"]["resourceVersion"] = given or meta(old)["resourceVersion"]
        return self._replace(target, old, merged, call, owned=True), False

    def _replace(self, target: Target, old: Obj, new: Obj, call: Call, owned: bool = False) -> Obj:
        resource, data, before = target.resource, new["metadata"], meta(old)
        if (given := data.get("resourceVersion")) and not str(given).isdigit():
            raise Refusal(500, "", f'strconv.ParseUint: parsing "{given}": invalid syntax')
        if given and given != before["resourceVersion"]:
            raise refusals.stale(resource, target.name)
        if data.get("uid") and data["uid"] != before["uid"]:
            why = (
                f"StorageError: invalid object, Code: 4, Key: {etcd_key(target)}, ResourceVersion: 0, "
                f"AdditionalErrorMsg: Precondition failed: UID in precondition: {data['uid']}, "
                f"UID in object meta: {before['uid']}"
            )
            raise refusals.conflict(resource, target.name, why)
        admission.of_change(call.identity, resource, target.subresource, old, new)
        fields = data.get("managedFields")
        if target.subresource == "status":
            new = {**clone(old), "status": new.get("status", {})}
            new["metadata"]["resourceVersion"] = before["resourceVersion"]
        elif "status" in resource.subresources:
            new.pop("status", None)
            if "status" in old:
                new["status"] = clone(old["status"])
        data = new["metadata"]
        for field in (
            "uid",
            "creationTimestamp",
            "generation",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "namespace",
            "generateName",
        ):
            data.pop(field, None)
            if field in before:
                data[field] = before[field]
        if target.subresource != "status":
            if resource.plural == "services" and isinstance(new.get("spec"), dict):
                for field in ("clusterIP", "clusterIPs"):
                    if field in old.get("spec", {}):
                        new["spec"].setdefault(field, old["spec"][field])
            rules.fill(resource, new)
            rules.check(resource, new)
            rules.check_change(resource, old, new)
            self._guard_roles(resource, old, new, call)
        if "generation" in before and new.get("spec") != old.get("spec"):
            data["generation"] = before["generation"] + 1
        if owned:
            data["managedFields"] = fields
        else:
            if fields in ([], [{}]):
                data["managedFields"] = []
            ownership.note_update(old, new, call.manager, target.subresource)
        if unchanged(old, new):
            return old
        if data.get("deletionTimestamp") and not data.get("finalizers") and not graceful(resource, new):
            return self._removed(resource, new, call)
        return self._stored("updated", resource, new, call)

    def delete(self, target: Target, options: Obj, call: Call) -> Obj:
        """Deletes, or marks for deletion; returns the Status or the object that still waits."""
        resource, old = target.resource, self.read(target)
        admission.of_deletion(call.identity, resource, old)
        data = meta(old)
        wanted = options.get("preconditions") or {}
        for field, label, end in (
            ("uid", "UID", "deleted and then recreated"),
            ("resourceVersion", "ResourceVersion", "modified"),
        ):
            if wanted.get(field) and wanted[field] != data.get(field):
                raise refusals.failed_precondition(resource, target.name, label, wanted[field], data.get(field), end)
        grace = options.get("gracePeriodSeconds")
        waits = bool(data.get("finalizers")) or resource.plural == "namespaces"
        if resource.plural == "pods" and grace != 0 and (old.get("spec") or {}).get("nodeName"):
            waits = True
        if not waits:
            self._orphan(options, data, call)
            last = self._removed(resource, old, call)
            return last if resource.plural in _SHOWN_WHEN_DELETED else deleted_status(resource, data)
        if data.get("deletionTimestamp") and grace != 0:
            return old
        new = clone(old)
        new["metadata"]["deletionTimestamp"] = now_text()
        new["metadata"]["deletionGracePeriodSeconds"] = (
            grace if isinstance(grace, int) else (30 if resource.plural == "pods" else 0)
        )
        if resource.plural == "namespaces":
            new["status"] = {**(new.get("status") or {}), "phase": "Terminating"}
        self._orphan(options, data, call)
        return self._stored("updated", resource, new, call)

    def _orphan(self, options: Obj, data: Obj, call: Call) -> None:
        if options.get("propagationPolicy") != "Orphan" or call.dry_run:
            return
        for storage in self.store.collections():
            for obj in self.store.rows(storage):
                owners = meta(obj).get("ownerReferences") or []
                left = [item for item in owners if item.get("uid") != data["uid"]]
                if len(left) != len(owners):
                    fresh = clone(obj)
                    fresh["metadata"]["ownerReferences"] = left
                    self.store.put(storage, fresh)

    # for our own components: they act as parts of the control plane

    def ensure(self, obj: Obj, manager: str = "lab") -> Obj:
        """Creates the object when it does not exist; returns the stored one."""
        resource = self.registry.of_kind(obj["apiVersion"], obj["kind"])
        if resource is None:
            raise KeyError(obj["kind"])
        found = self.store.get(resource.storage, key_of(obj))
        if found is not None:
            return found
        return self.create(Target(resource, key_of(obj)[0]), obj, Call(manager=manager))

    def change(
        self, plural: str, key: Key, edit: Callable[[Obj], None], manager: str = "", group: str | None = None
    ) -> None:
        """Edits a stored object in place of a controller; ownership is only written when `manager` is given."""
        resource = self._resource(plural, group)
        old = self.store.get(resource.storage, key)
        if old is None:
            return
        new = clone(old)
        edit(new)
        if new == old:
            return
        if "generation" in meta(old) and new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] = meta(old)["generation"] + 1
        if manager:
            ownership.note_update(old, new, manager)
        self._stored("updated", resource, new, Call())

    def take(self, plural: str, key: Key, group: str | None = None) -> None:
        """Removes an object at once, whatever its finalizers say."""
        resource = self._resource(plural, group)
        old = self.store.get(resource.storage, key)
        if old is not None:
            self._removed(resource, old, Call())

    # inside

    def _decoded(self, resource: Resource, body: Any) -> Obj:
        if not isinstance(body, dict):
            raise refusals.bad_request("the object provided is unrecognized")
        obj: Obj = rules.without_nulls(body)
        version, kind = obj.setdefault("apiVersion", resource.api_version), obj.setdefault("kind", resource.kind)
        if (version, kind) != (resource.api_version, resource.kind):
            raise refusals.other_kind(str(version), str(kind), resource)
        if not isinstance(obj.setdefault("metadata", {}), dict):
            raise refusals.bad_request("metadata is not an object")
        return obj

    def _demand_namespace(self, name: str, resource: Resource, obj_name: str) -> None:
        spaces = self.registry.named("namespaces")
        found = self.store.get(spaces.storage, ("", name))
        if found is None:
            raise refusals.not_found(spaces, name)
        if meta(found).get("deletionTimestamp"):
            raise refusals.terminating(resource, obj_name, name)

    def _guard_roles(self, resource: Resource, old: Obj | None, new: Obj, call: Call) -> None:
        if resource.group != "rbac.authorization.k8s.io" or call.identity.master:
            return
        space, name = key_of(new)
        if "rules" in new and (old is None or old.get("rules") != new.get("rules")):
            self.authoriser.demand_no_escalation(call.identity, new.get("rules") or [], space, name, resource.kind)
        if "roleRef" in new and old != new:
            granted = self.authoriser.rules_of_reference(new["roleRef"], space)
            verb = Attempt(
                "bind",
                resource.group,
                "clusterroles" if new["roleRef"]["kind"] == "ClusterRole" else "roles",
                namespace=space,
                name=new["roleRef"].get("name", ""),
            )
            if not self.authoriser.allows(call.identity, verb):
                self.authoriser.demand_no_escalation(call.identity, granted, space, name, resource.kind)

    def _stored(self, what: str, resource: Resource, obj: Obj, call: Call) -> Obj:
        if call.dry_run:
            return obj
        self.store.put(resource.storage, obj)
        for hook in list(self.after):
            hook(what, resource, obj)
        return self.store.get(resource.storage, key_of(obj)) or obj

    def _removed(self, resource: Resource, obj: Obj, call: Call) -> Obj:
        if call.dry_run:
            return obj
        last = self.store.remove(resource.storage, key_of(obj)) or obj
        for hook in list(self.after):
            hook("removed", resource, last)
        return last
