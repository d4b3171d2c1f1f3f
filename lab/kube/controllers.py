"""What the controller manager does to API objects at once: accounts, tokens, garbage, namespaces, CRDs, PDBs."""

import base64
from typing import TYPE_CHECKING

from lab.kube.objects import Obj, annotations_of, clone, dig, key_of, labels_of, meta
from lab.kube.resources import Resource
from lab.kube.selectors import from_object, labels_match, owned_by

if TYPE_CHECKING:
    from lab.kube.api import KubeApi

_SERVICE_BASE = 256 * 43 + 10


class Controllers:
    """Hooks itself into one API; every reaction is done before the answer of the call that caused it."""

    def __init__(self, api: "KubeApi") -> None:
        self._api = api
        self._next_service = 0
        api.after.append(self._react)

    def _react(self, what: str, resource: Resource, obj: Obj) -> None:
        plural = resource.plural
        if what == "removed":
            self._collect(meta(obj).get("uid", ""))
        if plural == "namespaces":
            if what == "created":
                self._equip(meta(obj)["name"])
            elif what == "updated" and meta(obj).get("deletionTimestamp"):
                self._empty(meta(obj)["name"])
        elif plural == "customresourcedefinitions":
            self._serve(what, obj)
        elif plural == "secrets" and what == "created":
            self._mint(obj)
        elif plural == "services" and what == "created":
            self._address(obj)
        elif plural in ("pods", "poddisruptionbudgets"):
            self._budgets(key_of(obj)[0])
        if what == "removed" and resource.namespaced:
            space = self._api.find("namespaces", "", key_of(obj)[0])
            if space and meta(space).get("deletionTimestamp"):
                self._empty(key_of(obj)[0])

    def _equip(self, namespace: str) -> None:
        self._api.ensure(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": namespace}},
            "kube-controller-manager",
        )
        self._api.ensure(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "data": {"ca.crt": self._api.root_ca},
                "metadata": {"name": "kube-root-ca.crt", "namespace": namespace},
            },
            "kube-controller-manager",
        )

    def _empty(self, namespace: str) -> None:
        left = False
        for storage, resource in self._api.registry.storages().items():
            if not resource.namespaced:
                continue
            for obj in self._api.store.rows(storage, namespace):
                if meta(obj).get("finalizers"):
                    left = True
                    if not meta(obj).get("deletionTimestamp"):
                        from lab.kube.api import Call
                        from lab.kube.resources import Target

                        self._api.delete(Target(resource, namespace, meta(obj)["name"]), {}, Call())
                else:
                    self._api.take(resource.plural, key_of(obj), resource.group)
        space = self._api.find("namespaces", "", namespace)
        if not left and space is not None and not meta(space).get("finalizers"):
            self._api.take("namespaces", ("", namespace), "")

    def _collect(self, uid: str) -> None:
        """Removes what only the removed object owned."""
        for storage, resource in list(self._api.registry.storages().items()):
            for obj in self._api.store.rows(storage):
                if not owned_by(obj, uid):
                    continue
                left = [item for item in meta(obj)["ownerReferences"] if item.get("uid") != uid]
                if left:
                    fresh = clone(obj)
                    fresh["metadata"]["ownerReferences"] = left
                    self._api.store.put(storage, fresh)
                elif not meta(obj).get("finalizers"):
                    self._api.take(resource.plural, key_of(obj), resource.group)

    def _serve(self, what: str, definition: Obj) -> None:
        spec = definition.get("spec") or {}
        names = spec.get("names") or {}
        group, plural = spec.get("group", ""), names.get("plural", "")
        self._api.registry.drop(group, plural)
        if what == "removed":
            for obj in self._api.store.rows(f"{group}/{plural}"):
                self._api.store.remove(f"{group}/{plural}", key_of(obj))
            return
        for version in spec.get("versions") or []:
            if version.get("served"):
                subs = tuple(version.get("subresources") or ())
                self._api.registry.add(
                    Resource(
                        group,
                        version["name"],
                        plural,
                        names.get("kind", ""),
                        spec.get("scope") == "Namespaced",
                        tuple(names.get("shortNames") or ()),
                        subs,
                        categories=tuple(names.get("categories") or ()),
                        custom=True,
                    )
                )
        if dig(definition, "status", "acceptedNames") is None:

            def accept(obj: Obj) -> None:
                obj["status"] = {
                    "acceptedNames": names,
                    "storedVersions": [item["name"] for item in spec.get("versions") or []],
                    "conditions": [
                        {
                            "type": kind,
                            "status": "True",
                            "reason": reason,
                            "message": "",
                            "lastTransitionTime": meta(obj)["creationTimestamp"],
                        }
                        for kind, reason in (("NamesAccepted", "NoConflicts"), ("Established", "InitialNamesAccepted"))
                    ],
                }

            self._api.change("customresourcedefinitions", key_of(definition), accept)

    def _mint(self, secret: Obj) -> None:
        if secret.get("type") != "kubernetes.io/service-account-token":
            return
        namespace, name = key_of(secret)
        account = self._api.find(
            "serviceaccounts", namespace, annotations_of(secret).get("kubernetes.io/service-account.name", "")
        )
        if account is None:
            self._api.take("secrets", (namespace, name), "")
            return
        token = self._api.signer.issue_lasting(account, name)

        def fill(obj: Obj) -> None:
            encoded = {"token": token, "ca.crt": self._api.root_ca, "namespace": namespace}
            obj["data"] = {key: base64.b64encode(value.encode()).decode() for key, value in encoded.items()}
            obj["metadata"].setdefault("annotations", {})["kubernetes.io/service-account.uid"] = meta(account)["uid"]

        self._api.change("secrets", (namespace, name), fill)

    def _address(self, service: Obj) -> None:
        if dig(service, "spec", "clusterIP") or dig(service, "spec", "type") == "ExternalName":
            return
        self._next_service += 1
        number = _SERVICE_BASE + self._next_service

        def fill(obj: Obj) -> None:
            address = f"10.{number // 65536 + 43}.{number // 256 % 256}.{number % 256}"
            obj["spec"]["clusterIP"], obj["spec"]["clusterIPs"] = address, [address]
            obj["spec"].setdefault("ipFamilies", ["IPv4"])
            obj["spec"].setdefault("ipFamilyPolicy", "SingleStack")

        self._api.change("services", key_of(service), fill)

    def _budgets(self, namespace: str) -> None:
        for budget in self._api.rows("poddisruptionbudgets", namespace):
            status = budget_status(self._api, budget)
            if status != budget.get("status"):
                self._api.change("poddisruptionbudgets", key_of(budget), lambda obj, new=status: obj.update(status=new))  # type: ignore[misc]


def _count(value: int | str, total: int) -> int:
    """A number of pods, or a percentage of all of them rounded up."""
    if isinstance(value, str) and value.endswith("%"):
        return -(-int(value[:-1]) * total // 100)
    return int(value)


def _wanted(api: "KubeApi", pods: list[Obj]) -> int:
    """How many pods their controllers want; a pod without one does not count, as in the disruption controller."""
    owners: dict[str, int] = {}
    for pod in pods:
        for owner in meta(pod).get("ownerReferences") or []:
            plural = f"{str(owner.get('kind')).lower()}s"
            if owner.get("controller") and plural in ("replicasets", "statefulsets", "replicationcontrollers"):
                found = api.find(plural, key_of(pod)[0], owner.get("name", ""))
                owners[str(owner.get("uid"))] = dig(found or {}, "spec", "replicas", default=0)
    return sum(owners.values())


def pod_ready(pod: Obj) -> bool:
    """True when the pod's Ready condition is."""
    return any(
        item.get("type") == "Ready" and item.get("status") == "True"
        for item in dig(pod, "status", "conditions", default=[]) or []
    )


def budget_status(api: "KubeApi", budget: Obj) -> Obj:
    """What the disruption controller would write into a PodDisruptionBudget."""
    spec = budget.get("spec") or {}
    wanted = from_object(spec.get("selector"))
    pods = (
        []
        if wanted is None
        else [
            pod
            for pod in api.rows("pods", key_of(budget)[0])
            if labels_match(wanted, labels_of(pod)) and dig(pod, "status", "phase") not in ("Succeeded", "Failed")
        ]
    )
    healthy = sum(1 for pod in pods if pod_ready(pod) and not meta(pod).get("deletionTimestamp"))
    expected = len(pods)
    if "maxUnavailable" in spec:
        expected = _wanted(api, pods)
        needed = max(0, expected - _count(spec["maxUnavailable"], expected))
    elif isinstance(least := spec.get("minAvailable", 1), str):
        expected = _wanted(api, pods)
        needed = _count(least, expected)
    else:
        needed = least
    allowed = max(0, healthy - needed) if expected else 0
    return {
        "currentHealthy": healthy,
        "desiredHealthy": max(0, needed),
        "expectedPods": expected,
        "disruptionsAllowed": allowed,
        "observedGeneration": meta(budget).get("generation", 1),
        "conditions": [
            {
                "type": "DisruptionAllowed",
                "status": "True" if allowed else "False",
                "reason": "SufficientPods" if allowed else "InsufficientPods",
                "message": "",
                "lastTransitionTime": meta(budget).get("creationTimestamp"),
                "observedGeneration": meta(budget).get("generation", 1),
            }
        ],
    }
