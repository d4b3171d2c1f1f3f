"""The kinds that the double serves, and how a request path names them."""

from dataclasses import dataclass, field

STANDARD_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True)
class Resource:
    """One kind of object.

    `subresources` maps a name (`status`) to the kind that it answers with; `columns` are the names and paths of the
    extra columns of the printed table (lab/kube/tables.py knows the computed ones).
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = STANDARD_VERBS
    categories: tuple[str, ...] = ()
    custom: bool = field(default=False, compare=False)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """`deployments.apps`, as messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def storage(self) -> str:
        """The store's name for the collection; versions of one kind share it."""
        return f"{self.group}/{self.plural}"

    @property
    def root(self) -> str:
        """The path of the group and version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


def _core(plural: str, kind: str, *subs: str, short: str = "", ns: bool = True, cat: tuple[str, ...] = ()) -> Resource:
    return Resource("", "v1", plural, kind, ns, tuple(short.split()), subs, categories=cat)


def _in(
    group: str, plural: str, kind: str, *subs: str, short: str = "", ns: bool = True, cat: tuple[str, ...] = ()
) -> Resource:
    return Resource(group, "v1", plural, kind, ns, tuple(short.split()), subs, categories=cat)


_ALL = ("all",)
_RBAC = "rbac.authorization.k8s.io"
_AUTHN = "authentication.k8s.io"
_AUTHZ = "authorization.k8s.io"


def _review(group: str, plural: str, kind: str, ns: bool = False) -> Resource:
    return Resource(group, "v1", plural, kind, ns, verbs=("create",))


BUILT_IN: tuple[Resource, ...] = (
    _core("namespaces", "Namespace", "status", "finalize", short="ns", ns=False),
    _core("nodes", "Node", "status", short="no", ns=False),
    _core("pods", "Pod", "status", "eviction", "binding", "log", "ephemeralcontainers", short="po", cat=_ALL),
    _core("secrets", "Secret"),
    _core("configmaps", "ConfigMap", short="cm"),
    _core("services", "Service", "status", short="svc", cat=_ALL),
    _core("serviceaccounts", "ServiceAccount", "token", short="sa"),
    _core("events", "Event", short="ev"),
    _core("endpoints", "Endpoints", short="ep"),
    _core("persistentvolumes", "PersistentVolume", "status", short="pv", ns=False),
    _core("persistentvolumeclaims", "PersistentVolumeClaim", "status", short="pvc"),
    _core("resourcequotas", "ResourceQuota", "status", short="quota"),
    _core("limitranges", "LimitRange", short="limits"),
    _core("replicationcontrollers", "ReplicationController", "status", "scale", short="rc", cat=_ALL),
    _in("apps", "deployments", "Deployment", "status", "scale", short="deploy", cat=_ALL),
    _in("apps", "daemonsets", "DaemonSet", "status", short="ds", cat=_ALL),
    _in("apps", "replicasets", "ReplicaSet", "status", "scale", short="rs", cat=_ALL),
    _in("apps", "statefulsets", "StatefulSet", "status", "scale", short="sts", cat=_ALL),
    _in("apps", "controllerrevisions", "ControllerRevision"),
    _in("batch", "jobs", "Job", "status", cat=_ALL),
    _in("batch", "cronjobs", "CronJob", "status", short="cj", cat=_ALL),
    _in(_RBAC, "roles", "Role"),
    _in(_RBAC, "rolebindings", "RoleBinding"),
    _in(_RBAC, "clusterroles", "ClusterRole", ns=False),
    _in(_RBAC, "clusterrolebindings", "ClusterRoleBinding", ns=False),
    _in("coordination.k8s.io", "leases", "Lease"),
    _in("policy", "poddisruptionbudgets", "PodDisruptionBudget", "status", short="pdb"),
    _in("storage.k8s.io", "storageclasses", "StorageClass", short="sc", ns=False),
    _in("storage.k8s.io", "volumeattachments", "VolumeAttachment", "status", ns=False),
    _in("storage.k8s.io", "csidrivers", "CSIDriver", ns=False),
    _in("storage.k8s.io", "csinodes", "CSINode", ns=False),
    _in("scheduling.k8s.io", "priorityclasses", "PriorityClass", short="pc", ns=False),
    _in("discovery.k8s.io", "endpointslices", "EndpointSlice"),
    _in("networking.k8s.io", "networkpolicies", "NetworkPolicy", short="netpol"),
    _in("networking.k8s.io", "ingresses", "Ingress", "status", short="ing"),
    _in("networking.k8s.io", "ingressclasses", "IngressClass", ns=False),
    _in("admissionregistration.k8s.io", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", ns=False),
    _in("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", ns=False),
    _in(
        "apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition", "status", short="crd", ns=False
    ),
    _in("apiregistration.k8s.io", "apiservices", "APIService", "status", ns=False),
    _review(_AUTHN, "tokenreviews", "TokenReview"),
    _review(_AUTHN, "selfsubjectreviews", "SelfSubjectReview"),
    _review(_AUTHZ, "subjectaccessreviews", "SubjectAccessReview"),
    _review(_AUTHZ, "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    _review(_AUTHZ, "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    _review(_AUTHZ, "localsubjectaccessreviews", "LocalSubjectAccessReview", ns=True),
)


class Registry:
    """The kinds of one cluster: the built-in ones, and those of its CustomResourceDefinitions."""

    def __init__(self) -> None:
        self._by_path: dict[tuple[str, str, str], Resource] = {}
        for resource in BUILT_IN:
            self.add(resource)

    def add(self, resource: Resource) -> None:
        self._by_path[resource.group, resource.version, resource.plural] = resource

    def drop(self, group: str, plural: str) -> None:
        """Forgets every version of a custom kind."""
        for path, resource in list(self._by_path.items()):
            if resource.custom and resource.group == group and resource.plural == plural:
                del self._by_path[path]

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self._by_path.get((group, version, plural))

    def named(self, plural: str, group: str = "") -> Resource:
        """The kind of that plural and group in any version; KeyError when not served."""
        for resource in self._by_path.values():
            if resource.plural == plural and resource.group == group:
                return resource
        raise KeyError(f"{plural}.{group}")

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        for resource in self._by_path.values():
            if resource.kind == kind and resource.api_version == api_version:
                return resource
        return None

    def all(self) -> list[Resource]:
        return list(self._by_path.values())

    def storages(self) -> dict[str, Resource]:
        """One resource for each stored collection."""
        return {item.storage: item for item in self._by_path.values() if "list" in item.verbs}

    def groups(self) -> dict[str, list[str]]:
        """Versions by group, without the core group."""
        found: dict[str, list[str]] = {}
        for group, version, _ in self._by_path:
            if group and version not in found.setdefault(group, []):
                found[group].append(version)
        return found


@dataclass(frozen=True)
class Target:
    """What a request path names."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def parse_path(registry: Registry, path: str) -> Target | None:
    """Reads `/api/v1/namespaces/x/pods/y/status` and its kin; None when it names no resource that is served."""
    parts = [part for part in path.split("/") if part]
    if len(parts) >= 2 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 3 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    if not rest:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 3 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3:
        return None
    resource = registry.find(group, version, rest[0])
    if resource is None or (namespace and not resource.namespaced):
        return None
    name = rest[1] if len(rest) > 1 else ""
    sub = rest[2] if len(rest) > 2 else ""
    if sub and sub not in resource.subresources:
        return None
    if resource.namespaced and name and not namespace:
        return None
    return Target(resource, namespace, name, sub)
