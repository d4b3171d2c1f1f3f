"""Why a machine has not joined: from its own words to one sentence, without its secrets."""

import pytest

from domain.diagnosis import Evidence, diagnose, mask


@pytest.mark.parametrize(
    ("line", "final", "told"),
    [
        ('level=fatal msg="flag provided but not defined: -no-such-flag"', True, "refuses its configuration"),
        ('level=fatal msg="starting kubernetes: critical configuration value mismatch: cluster-cidr"', True, "differs"),
        ('level=fatal msg="token CA hash does not match the Cluster CA certificate hash"', True, "authority"),
        ('level=fatal msg="failed to get CA certs: 401 Unauthorized"', True, "join token"),
        ('level=error msg="Node password rejected, duplicate hostname"', True, "another password"),
        ('level=error msg="dial tcp 192.0.2.50:9345: connect: connection refused"', False, "cannot reach"),
        ("x509: certificate is valid for 192.0.2.51, not 192.0.2.50", False, "TLS"),
    ],
)
def test_the_machines_own_words_decide(line: str, final: bool, told: str) -> None:
    finding = diagnose(Evidence(powered_on=True, agent=True, cloud_init="running", journal=("starting", line)), 30)
    assert finding.final is final
    assert told in finding.text


KUBEADM = (
    ("trilithon: the template holds kubeadm v1.35.4, wanted is v1.36.3", True, "template"),
    ("trilithon: the template does not hold kubelet", True, "template"),
    ("trilithon: the boot data lacks pki/etcd/ca.key", True, "boot data"),
    ("error: failed to verify JWS signature of received cluster info object, can't trust it", True, "token"),
    (
        'error: cluster CA found in cluster-info ConfigMap is invalid: none of the public keys "sha256:ab" are pinned',
        True,
        "authority",
    ),
    ("error: couldn't validate the identity of the API Server: invalid discovery token CA certificate hash: unknown "
     'hash format "md5". Known format(s) are: sha256', True, "authority"),
    ("W1130 certs.go:370] assuming external key for etcd CA: couldn't load the private key file", True, "authority"),
    ("error: failure loading key for apiserver-etcd-client: no such file or directory", True, "authority"),
    ("error: x509: provided PrivateKey doesn't match parent's PublicKey", True, "authority"),
    ("\t[ERROR Port-6443]: Port 6443 is in use", True, "holds a port"),
    ("\t[ERROR ImagePull]: failed to pull image registry.k8s.io/etcd:3.6.8-0: not found", False, "image"),
    ("\t[ERROR NumCPU]: the number of available CPUs 1 is less than the required 2", True, "refuses to make a node"),
    ("error: couldn't create kubeadm client: Unauthorized", True, "join token"),
    ("error: execution phase etcd-join: etcdserver: too many learner members in cluster", False, "etcd"),
    ("[discovery] Retrying due to error: failed to request the cluster-info ConfigMap: dial tcp 192.0.2.50:6443: "
     "connect: no route to host", False, "cannot reach"),
    *(
        (f"error: {said}", True, "refuses its configuration file")
        for said in (  # by `kubeadm config validate` of v1.36.3
            "invalid configuration for GroupVersionKind /, Kind=JoinConfiguration: kind and apiVersion is mandatory "
            "information that must be specified",
            'your configuration file uses an old API spec: "kubeadm.k8s.io/v1beta2" (kind: "InitConfiguration")',
            'encryptionAlgorithm: Invalid value: "DES": Invalid encryption algorithm "DES"',
            "[discovery.bootstrapToken: Required value: APIServerEndpoint is not set, "
            'discovery.bootstrapToken.apiServerEndpoint: Invalid value: "": missing port in address]',
            'nodeRegistration.kubeletExtraArgs: Invalid value: "index 0": argument has no name',
            'version "newest" doesn\'t match patterns for neither semantic version nor labels (stable, latest, ...)',
        )
    ),
    ("error: error execution phase check-etcd: error syncing endpoints with etcd: context deadline exceeded", False,
     "etcd does not answer"),
    ("error: failed while waiting for the control plane to start: kube-apiserver check failed", False, "do not start"),
)  # fmt: skip
MENDABLE = (
    (
        'Retrying due to error: could not find a JWS signature in the cluster-info ConfigMap for token ID "abcdef"',
        60,
        "does not know the machine's join token",
    ),
    ("trilithon: containerd does not start", 120, "containerd"),
    ("\t[ERROR CRI]: could not connect to the container runtime: dial unix", 120, "containerd"),
    ('error: a Node with name "x" and status "Ready" already exists in the cluster.', 300, "this name"),
)


@pytest.mark.parametrize(("line", "final", "told"), KUBEADM, ids=[row[2] + str(n) for n, row in enumerate(KUBEADM)])
def test_kubeadms_words_decide(line: str, final: bool, told: str) -> None:
    talk = ('[certs] Generating "apiserver" certificate and key', line, "trilithon: kubeadm join failed")
    finding = diagnose(Evidence(powered_on=True, agent=True, cloud_init="done", journal=talk), 600)
    assert finding.final is final, finding.text
    assert told in finding.text


@pytest.mark.parametrize(("line", "patience", "told"), MENDABLE, ids=[row[2] for row in MENDABLE[:3]] + ["name"])
def test_what_may_be_a_matter_of_order_is_final_only_later(line: str, patience: int, told: str) -> None:
    given = Evidence(powered_on=True, agent=True, cloud_init="done", journal=(line,))
    early, late = diagnose(given, patience - 1), diagnose(given, patience)
    assert (early.final, late.final) == (False, True)
    assert told in early.text
    assert early.text == late.text


def test_kubeadm_at_work_is_no_finding() -> None:
    talk = (
        '[certs] Generating "etcd/server" certificate and key',
        "[certs] etcd/server serving cert is signed for DNS names [localhost prod-cp-1]",
        "[certs] Using existing ca certificate authority",
        "I1130 22:00:00 checks.go:89] validating the container runtime",
        "trilithon: the template does not hold k3s v1.36.5+k3s1",
    )
    finding = diagnose(Evidence(powered_on=True, agent=True, cloud_init="done", journal=talk), 600)
    assert not finding.final
    assert "has not joined after 600 s" in finding.text


def test_silence_is_never_final_and_says_what_is_known() -> None:
    finding = diagnose(Evidence(powered_on=True, agent=False, api="connection refused"), 90)
    assert not finding.final
    assert "90 s" in finding.text
    assert "connection refused" in finding.text


def test_a_powered_off_vm_is_said_first() -> None:
    assert "powered off" in diagnose(Evidence(powered_on=False, journal=("401 Unauthorized",)), 5).text


def test_cloud_init_that_failed_is_final() -> None:
    finding = diagnose(Evidence(powered_on=True, agent=True, cloud_init="error", log=("no space left on device",)), 5)
    assert finding.final
    assert "no space left" in finding.text


@pytest.mark.parametrize(
    "secret",
    [
        "K10" + "a" * 64 + "::server:0123456789abcdef",
        "abcdef.0123456789abcdef",
        "-----BEGIN EC PRIVATE KEY-----MHcCAQ",
        "token: verysecretvalue",
    ],
)
def test_secrets_in_log_lines_are_masked(secret: str) -> None:
    shown = mask(f"level=info joining with {secret}")
    assert "masked" in shown
    assert secret not in shown
    assert secret.rpartition(":")[2].strip() not in shown


def test_long_lines_are_cut() -> None:
    assert len(mask("x" * 5000)) == 300


def test_a_silent_virtual_ip_is_told_before_what_the_machine_blames_for_it() -> None:
    blamed = "error: Post https://192.0.2.50:6443/api/v1: dial tcp 192.0.2.50:6443: connect: no route to host"
    given = Evidence(
        powered_on=True,
        agent=True,
        journal=(blamed,),
        virtual_ip="https://192.0.2.50:6443 does not answer: All connection attempts failed",
        kube_vip=("... no such interface ens9",),
    )
    finding = diagnose(given, 600)
    assert not finding.final
    assert "nobody holds the cluster's virtual IP" in finding.text
    assert "https://192.0.2.50:6443 does not answer" in finding.text
    assert "kube-vip says there: ... no such interface ens9" in finding.text
    mute = diagnose(given.model_copy(update={"kube_vip": ()}), 600)
    assert "has said nothing there: is its image in the template" in mute.text
