"""Deployments, ReplicaSets, StatefulSets and DaemonSets: their pods, the nodes these run on, and the status."""

import hashlib
from typing import Any

from lab.kube.api import KubeApi
from lab.kube.controllers import pod_ready
from lab.kube.objects import Obj, canonical, clone, dig, key_of, labels_of, meta, now_text
from lab.kube.selectors import from_object, labels_match
from lab.kube.storage import Change

_WATCHED = ("/pods", "/nodes", "apps/deployments", "apps/replicasets", "apps/daemonsets", "apps/statefulsets")
_AUTO_TOLERATED = (
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/disk-pressure",
)


class Workloads:
    """The controllers, the scheduler and the kubelets' part in one pass; it only runs after a change."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._dirty = True
        api.store.listen(self._note)

    def _note(self, change: Change) -> None:
        if change.storage in _WATCHED:
            self._dirty = True

    def reconcile(self) -> None:
        """Brings pods and status to what the workloads want; a few passes until nothing moves."""
        for _ in range(6):
            if not self._dirty:
                return
            self._dirty = False
            for deployment in self._api.rows("deployments"):
                self._deployment(deployment)
            for owner in self._api.rows("replicasets") + self._api.rows("statefulsets"):
                self._replicas(owner)
            for daemon in self._api.rows("daemonsets"):
                self._daemons(daemon)
            self._pods()
            self._statuses()

    def _owned(self, plural: str, owner: Obj) -> list[Obj]:
        uid = meta(owner)["uid"]
        return [
            item
            for item in self._api.rows(plural, key_of(owner)[0])
            if any(ref.get("uid") == uid for ref in meta(item).get("ownerReferences") or [])
        ]

    def _deployment(self, deployment: Obj) -> None:
        spec = deployment["spec"]
        digest = hashlib.sha256(canonical(spec["template"]).encode()).hexdigest()[:9]
        name = f"{meta(deployment)['name']}-{digest}"
        template = clone(spec["template"])
        labels = {**(dig(template, "metadata", "labels", default={}) or {}), "pod-template-hash": digest}
        template.setdefault("metadata", {})["labels"] = labels
        for old in self._owned("replicasets", deployment):
            if meta(old)["name"] != name and dig(old, "spec", "replicas"):
                self._api.change("replicasets", key_of(old), lambda item: item["spec"].update(replicas=0))
        found = self._api.find("replicasets", key_of(deployment)[0], name)
        if found is None:
            selector = {**(spec.get("selector") or {})}
            selector["matchLabels"] = {**(selector.get("matchLabels") or {}), "pod-template-hash": digest}
            self._api.ensure(
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "metadata": {
                        "name": name,
                        "namespace": key_of(deployment)[0],
                        "labels": labels,
                        "ownerReferences": [_reference(deployment)],
                    },
                    "spec": {"replicas": spec["replicas"], "selector": selector, "template": template},
                },
                "kube-controller-manager",
            )
        elif dig(found, "spec", "replicas") != spec["replicas"]:
            self._api.change("replicasets", key_of(found), lambda item: item["spec"].update(replicas=spec["replicas"]))

    def _replicas(self, owner: Obj) -> None:
        if meta(owner).get("deletionTimestamp"):
            return
        pods = [pod for pod in self._owned("pods", owner) if not meta(pod).get("deletionTimestamp")]
        wanted = dig(owner, "spec", "replicas", default=1)
        for number in range(wanted - len(pods)):
            seed = f"{meta(owner)['uid']}{self._api.store.revision}{number}"
            suffix = hashlib.sha256(seed.encode()).hexdigest()[:5]
            self._make_pod(owner, f"{meta(owner)['name']}-{suffix}", "")
        for pod in sorted(pods, key=pod_ready)[: max(0, len(pods) - wanted)]:
            self._remove_pod(pod)

    def _daemons(self, daemon: Obj) -> None:
        if meta(daemon).get("deletionTimestamp"):
            return
        pods = {dig(pod, "spec", "nodeName"): pod for pod in self._owned("pods", daemon)}
        for node in self._api.rows("nodes"):
            name = meta(node)["name"]
            fits = self._fits(daemon["spec"]["template"]["spec"], node, daemon=True)
            if fits and name not in pods:
                suffix = hashlib.sha256(f"{meta(daemon)['uid']}{name}".encode()).hexdigest()[:5]
                self._make_pod(daemon, f"{meta(daemon)['name']}-{suffix}", name)
        known = {meta(node)["name"] for node in self._api.rows("nodes")}
        for name, pod in pods.items():
            if name not in known:
                self._api.take("pods", key_of(pod))

    def _make_pod(self, owner: Obj, name: str, node: str) -> None:
        template = clone(owner["spec"]["template"])
        spec = template["spec"]
        if node:
            spec["nodeName"] = node
        data = {
            **(template.get("metadata") or {}),
            "name": name,
            "namespace": key_of(owner)[0],
            "ownerReferences": [_reference(owner)],
        }
        self._api.ensure({"apiVersion": "v1", "kind": "Pod", "metadata": data, "spec": spec}, "kube-controller-manager")

    def _remove_pod(self, pod: Obj) -> None:
        if not dig(pod, "spec", "nodeName"):
            self._api.take("pods", key_of(pod))
        else:
            self._api.change(
                "pods",
                key_of(pod),
                lambda item: item["metadata"].update(deletionTimestamp=now_text(), deletionGracePeriodSeconds=30),
            )

    def _fits(self, spec: Obj, node: Obj, daemon: bool = False) -> bool:
        if dig(node, "spec", "unschedulable") and not daemon:
            return False
        if not labels_match(
            [(key, "in", (value,)) for key, value in (spec.get("nodeSelector") or {}).items()], labels_of(node)
        ):
            return False
        required = (
            dig(
                spec,
                "affinity",
                "nodeAffinity",
                "requiredDuringSchedulingIgnoredDuringExecution",
                "nodeSelectorTerms",
                default=[],
            )
            or []
        )
        if required and not any(
            labels_match(from_object({"matchExpressions": term.get("matchExpressions") or []}) or [], labels_of(node))
            for term in required
        ):
            return False
        for taint in dig(node, "spec", "taints", default=[]) or []:
            if taint.get("effect") == "PreferNoSchedule" or (daemon and taint["key"] in _AUTO_TOLERATED):
                continue
            if not any(_tolerates(item, taint) for item in spec.get("tolerations") or []):
                return False
        return True

    def _pods(self) -> None:
        nodes = {meta(node)["name"]: node for node in self._api.rows("nodes")}
        load = dict.fromkeys(nodes, 0)
        pods = self._api.rows("pods")
        for pod in pods:
            if (name := dig(pod, "spec", "nodeName")) in load:
                load[name] += 1
        for pod in pods:
            name = dig(pod, "spec", "nodeName")
            if not name:
                fitting = [item for item in nodes if self._fits(pod["spec"], nodes[item])]
                if not fitting:
                    continue
                name = min(fitting, key=lambda item: (load[item], item))
                load[name] += 1
                self._api.change("pods", key_of(pod), lambda item, chosen=name: item["spec"].update(nodeName=chosen))  # type: ignore[misc]
            node = nodes.get(name)
            if node is None:
                continue
            alive = _condition(node, "Ready") == "True"
            if meta(pod).get("deletionTimestamp"):
                if alive and not meta(pod).get("finalizers"):
                    self._api.take("pods", key_of(pod))
                continue
            hosted = bool(dig(pod, "spec", "hostNetwork"))
            unknown = _condition(node, "Ready") == "Unknown"
            self._run(pod, alive or (hosted and not unknown), node)

    def _run(self, pod: Obj, runs: bool, node: Obj) -> None:
        ready = pod_ready(pod)
        if runs == ready:
            return
        now = now_text()
        address = dig(node, "status", "addresses", 0, "address", default="")

        def edit(item: Obj) -> None:
            state = "True" if runs else "False"
            item["status"] = {
                **item.get("status", {}),
                "phase": "Running" if runs else item["status"].get("phase", "Pending"),
                "hostIP": address,
                "podIP": address,
                "conditions": [
                    {"type": kind, "status": state, "lastTransitionTime": now}
                    for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
                ],
                "containerStatuses": [
                    {
                        "name": box["name"],
                        "image": box["image"],
                        "imageID": "",
                        "ready": runs,
                        "restartCount": 0,
                        "state": {"running": {"startedAt": now}} if runs else {},
                    }
                    for box in item["spec"]["containers"]
                ],
            }
            item["status"].setdefault("startTime", now)

        self._api.change("pods", key_of(pod), edit)

    def _statuses(self) -> None:
        for plural in ("replicasets", "statefulsets"):
            for owner in self._api.rows(plural):
                pods = [pod for pod in self._owned("pods", owner) if not meta(pod).get("deletionTimestamp")]
                ready = sum(map(pod_ready, pods))
                self._write(
                    plural,
                    owner,
                    {
                        "replicas": len(pods),
                        "fullyLabeledReplicas": len(pods),
                        "readyReplicas": ready,
                        "availableReplicas": ready,
                    },
                )
        for deployment in self._api.rows("deployments"):
            sets = self._owned("replicasets", deployment)
            counts = {
                name: sum(dig(item, "status", name, default=0) or 0 for item in sets)
                for name in ("replicas", "readyReplicas", "availableReplicas")
            }
            digest = hashlib.sha256(canonical(deployment["spec"]["template"]).encode()).hexdigest()[:9]
            current = next((item for item in sets if meta(item)["name"].endswith(digest)), {})
            wanted = deployment["spec"]["replicas"]
            available = counts["availableReplicas"] >= wanted
            self._write(
                "deployments",
                deployment,
                {
                    **counts,
                    "updatedReplicas": dig(current, "status", "replicas", default=0),
                    "unavailableReplicas": max(0, wanted - counts["availableReplicas"]),
                    "conditions": _conditions(deployment, available),
                },
            )
        for daemon in self._api.rows("daemonsets"):
            pods = self._owned("pods", daemon)
            ready = sum(map(pod_ready, pods))
            self._write(
                "daemonsets",
                daemon,
                {
                    "desiredNumberScheduled": len(pods),
                    "currentNumberScheduled": len(pods),
                    "numberReady": ready,
                    "numberAvailable": ready,
                    "updatedNumberScheduled": len(pods),
                    "numberMisscheduled": 0,
                    "numberUnavailable": len(pods) - ready,
                },
            )

    def _write(self, plural: str, obj: Obj, status: dict[str, Any]) -> None:
        status["observedGeneration"] = meta(obj).get("generation", 1)
        if (obj.get("status") or {}) != status:
            self._api.change(plural, key_of(obj), lambda item: item.update(status=status))


def _reference(owner: Obj) -> Obj:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": meta(owner)["name"],
        "uid": meta(owner)["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _tolerates(toleration: Obj, taint: Obj) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if not toleration.get("key"):
        return bool(toleration.get("operator") == "Exists")
    if toleration["key"] != taint["key"]:
        return False
    return toleration.get("operator") == "Exists" or (toleration.get("value") or "") == (taint.get("value") or "")


def _condition(node: Obj, kind: str) -> str:
    rows = dig(node, "status", "conditions", default=[]) or []
    return next((row["status"] for row in rows if row["type"] == kind), "Unknown")


def _conditions(deployment: Obj, available: bool) -> list[Obj]:
    before = {item["type"]: item for item in dig(deployment, "status", "conditions", default=[]) or []}
    rows = []
    for kind, state, reason in (
        ("Available", available, "MinimumReplicasAvailable" if available else "MinimumReplicasUnavailable"),
        ("Progressing", True, "NewReplicaSetAvailable" if available else "ReplicaSetUpdated"),
    ):
        text = "True" if state else "False"
        same = dig(before, kind, "status") == text
        when = before[kind]["lastTransitionTime"] if same else now_text()
        rows.append(
            {
                "type": kind,
                "status": text,
                "reason": reason,
                "message": "",
                "lastTransitionTime": when,
                "lastUpdateTime": when,
            }
        )
    return rows
