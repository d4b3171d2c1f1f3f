"""Hand-written boot data of a kubeadm cluster, so that the laboratory is judged without the product's own bootstrap."""

import datetime
import hashlib
import io
import json
import secrets
import textwrap
from dataclasses import dataclass, field

import pycdlib
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
_END = datetime.datetime(2036, 1, 1, tzinfo=datetime.UTC)


def _pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def iso(
    user_data: str, hostname: str, mac: str, address: str, gateway: str, prefix: int = 24, label: str = "cidata"
) -> bytes:
    """A NoCloud disc."""
    files = {
        "meta-data": f"instance-id: {hostname}-{secrets.token_hex(4)}\nlocal-hostname: {hostname}\n",
        "user-data": user_data,
        "network-config": textwrap.dedent(f"""\
            version: 2
            ethernets:
              eth0:
                match: {{macaddress: "{mac}"}}
                set-name: eth0
                addresses: ["{address}/{prefix}"]
                routes: [{{to: 0.0.0.0/0, via: {gateway}}}]
            """),
    }
    disc = pycdlib.PyCdlib()
    disc.new(rock_ridge="1.09", joliet=3, vol_ident=label)
    for number, (name, text) in enumerate(files.items()):
        data = text.encode()
        disc.add_fp(io.BytesIO(data), len(data), f"/F{number}.;1", rr_name=name, joliet_path=f"/{name}")
    out = io.BytesIO()
    disc.write_fp(out)
    disc.close()
    return out.getvalue()


def _file(path: str, content: str, mode: str = "0600") -> str:
    return f'  - path: {path}\n    permissions: "{mode}"\n    content: |\n' + textwrap.indent(content, "      ")


@dataclass
class HandMade:
    """One cluster's secrets and texts.

    Without `pod_network` nothing is applied after init; without `kube_proxy` init leaves it out; with `cloud` nodes
    wait for a cloud controller.
    """

    vip: str
    version: str
    pods: str = "10.244.0.0/16"
    services: str = "10.96.0.0/16"
    pod_network: bool = True
    kube_proxy: bool = True
    cloud: bool = False
    token: str = field(default_factory=lambda: f"{secrets.token_hex(3)}.{secrets.token_hex(8)}")
    certificate_key: str = field(default_factory=lambda: secrets.token_hex(32))

    def __post_init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
        self._ca = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(_START)
            .not_valid_after(_END)
            .add_extension(x509.BasicConstraints(True, None), critical=True)
            .add_extension(x509.KeyUsage(True, False, True, False, False, True, False, False, False), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.ca = self._ca.public_bytes(serialization.Encoding.PEM).decode()
        der = self._key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self.ca_hash = "sha256:" + hashlib.sha256(der).hexdigest()

    def kubeconfig(self, server: str, name: str, group: str = "", tls_name: str = "") -> str:
        """A kubeconfig (JSON is YAML) with a client certificate of its own."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        if group:
            subject.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
        cert = (
            x509.CertificateBuilder()
            .subject_name(x509.Name(subject))
            .issuer_name(self._ca.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(_START)
            .not_valid_after(_END)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
            .sign(self._key, hashes.SHA256())
        )

        def data(text: str) -> str:
            import base64

            return base64.b64encode(text.encode()).decode()

        cluster = {"server": server, "certificate-authority-data": data(self.ca)}
        if tls_name:
            cluster["tls-server-name"] = tls_name
        return json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [
                    {
                        "name": "u",
                        "user": {
                            "client-certificate-data": data(cert.public_bytes(serialization.Encoding.PEM).decode()),
                            "client-key-data": data(_pem(key)),
                        },
                    }
                ],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            }
        )

    def admin(self) -> str:
        """Kubeconfig of an administrator through the virtual IP."""
        return self.kubeconfig(f"https://{self.vip}:6443", "tester", "system:masters")

    def _kube_vip(self) -> list[str]:
        env = {
            "vip_arp": "true",
            "vip_arpRate": "500",
            "cp_enable": "true",
            "address": self.vip,
            "port": "6443",
            "vip_interface": "eth0",
            "vip_subnet": "32",
            "vip_leaderelection": "true",
            "vip_leaseduration": "10",
            "vip_renewdeadline": "4",
            "vip_retryperiod": "1",
            "k8s_config_file": "/etc/kubernetes/kube-vip.conf",
            "prometheus_server": "127.0.0.1:2112",
        }
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "kube-vip", "namespace": "kube-system"},
            "spec": {
                "hostNetwork": True,
                "priorityClassName": "system-node-critical",
                "containers": [
                    {
                        "name": "kube-vip",
                        "image": "ghcr.io/kube-vip/kube-vip:v1.2.3",
                        "args": ["manager"],
                        "env": [
                            *({"name": k, "value": v} for k, v in env.items()),
                            {"name": "vip_nodename", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                        ],
                        "securityContext": {
                            "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN", "NET_RAW"]},
                            "readOnlyRootFilesystem": True,
                            "allowPrivilegeEscalation": False,
                        },
                        "volumeMounts": [
                            {"name": "conf", "mountPath": "/etc/kubernetes/kube-vip.conf", "readOnly": True}
                        ],
                    }
                ],
                "volumes": [{"name": "conf", "hostPath": {"path": "/etc/kubernetes/kube-vip.conf", "type": "File"}}],
            },
        }
        config = self.kubeconfig("https://127.0.0.1:6443", "kube-vip", "system:masters", "kubernetes")
        return [
            _file("/etc/kubernetes/kube-vip.conf", config),
            _file("/etc/kubernetes/manifests/kube-vip.yaml", json.dumps(pod)),
        ]

    def _pod_network(self) -> str:
        name, namespace = "podnetwork", "kube-system"
        objects = [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}},
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole",
                "metadata": {"name": name},
                "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]}],
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
            },
            {
                "apiVersion": "apps/v1",
                "kind": "DaemonSet",
                "metadata": {"name": name, "namespace": namespace},
                "spec": {
                    "selector": {"matchLabels": {"app": name}},
                    "template": {
                        "metadata": {"labels": {"app": name}},
                        "spec": {
                            "hostNetwork": True,
                            "serviceAccountName": name,
                            "tolerations": [{"operator": "Exists"}],
                            "containers": [
                                {
                                    "name": name,
                                    "image": "quay.io/calico/node:v3.32.1",
                                    "args": ["agent"],
                                    "env": [
                                        {
                                            "name": "NODE_NAME",
                                            "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}},
                                        },
                                        {"name": "KUBERNETES_SERVICE_HOST", "value": self.vip},
                                        {"name": "KUBERNETES_SERVICE_PORT", "value": "6443"},
                                    ],
                                    "securityContext": {"privileged": True},
                                    "volumeMounts": [{"name": "cni", "mountPath": "/host/etc/cni/net.d"}],
                                }
                            ],
                            "volumes": [{"name": "cni", "hostPath": {"path": "/etc/cni/net.d"}}],
                        },
                    },
                },
            },
        ]
        return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})

    def first_server(self, address: str) -> str:
        """User-data of the node that runs `kubeadm init`."""
        config = [
            {
                "apiVersion": "kubeadm.k8s.io/v1beta4",
                "kind": "InitConfiguration",
                "bootstrapTokens": [{"token": self.token, "ttl": "24h0m0s"}],
                "certificateKey": self.certificate_key,
                "localAPIEndpoint": {"advertiseAddress": address},
                "nodeRegistration": self._registration(address),
                "skipPhases": [] if self.kube_proxy else ["addon/kube-proxy"],
            },
            {
                "apiVersion": "kubeadm.k8s.io/v1beta4",
                "kind": "ClusterConfiguration",
                "clusterName": "handmade",
                "kubernetesVersion": self.version,
                "controlPlaneEndpoint": f"{self.vip}:6443",
                "networking": {"podSubnet": self.pods, "serviceSubnet": self.services},
            },
            {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "cgroupDriver": "systemd"},
        ]
        apply = (
            f"kubectl --kubeconfig /etc/kubernetes/admin.conf --server https://{address}:6443 apply "
            "-f /etc/kubernetes/podnetwork.json >> /var/log/kubeadm.log 2>&1"
        )
        return self._text(
            [
                _file("/etc/kubernetes/pki/ca.crt", self.ca, "0644"),
                _file("/etc/kubernetes/pki/ca.key", _pem(self._key)),
                *self._kube_vip(),
                _file("/etc/kubernetes/kubeadm.yaml", "\n---\n".join(map(json.dumps, config))),
                _file("/etc/kubernetes/podnetwork.json", self._pod_network()),
            ],
            [
                "kubeadm init --config /etc/kubernetes/kubeadm.yaml --upload-certs > /var/log/kubeadm.log 2>&1",
                *([apply] if self.pod_network else []),
            ],
        )

    def joiner(self, address: str, server: bool = False) -> str:
        """User-data of every other node; it waits for the first one by itself."""
        config: dict[str, object] = {
            "apiVersion": "kubeadm.k8s.io/v1beta4",
            "kind": "JoinConfiguration",
            "discovery": {
                "bootstrapToken": {
                    "apiServerEndpoint": f"{self.vip}:6443",
                    "token": self.token,
                    "caCertHashes": [self.ca_hash],
                },
                "tlsBootstrapToken": self.token,
            },
            "timeouts": {"discovery": "10m0s"},
            "nodeRegistration": self._registration(address),
        }
        if server:
            config["controlPlane"] = {
                "certificateKey": self.certificate_key,
                "localAPIEndpoint": {"advertiseAddress": address},
            }
        return self._text(
            [*(self._kube_vip() if server else []), _file("/etc/kubernetes/kubeadm.yaml", json.dumps(config))],
            ["kubeadm join --config /etc/kubernetes/kubeadm.yaml > /var/log/kubeadm.log 2>&1"],
        )

    def _registration(self, address: str) -> dict[str, object]:
        more = [{"name": "cloud-provider", "value": "external"}] if self.cloud else []
        return {
            "criSocket": "unix:///run/containerd/containerd.sock",
            "imagePullPolicy": "IfNotPresent",
            "kubeletExtraArgs": [{"name": "node-ip", "value": address}, *more],
        }

    @staticmethod
    def _text(files: list[str], commands: list[str]) -> str:
        run = "".join(f"  - {command}\n" for command in [*commands, "touch /etc/cloud/cloud-init.disabled"])
        return (
            "#cloud-config\nmanage_etc_hosts: true\nssh_genkeytypes: [ed25519]\npackage_update: false\n"
            "write_files:\n" + "\n".join(files) + "\nruncmd:\n" + run
        )
