"""Status and words of an answer become one class."""

import pytest

from clients.proxmox import (
    AlreadyExists,
    BadParameter,
    Changed,
    Failed,
    Locked,
    NoQuorum,
    NotSupported,
    NotThere,
    ProxmoxError,
    Refused,
    RightMissing,
    Unreachable,
    classify,
    classify_task,
    mask,
)


@pytest.mark.parametrize(
    ("status", "text", "kind", "retry"),
    [
        (401, "authentication failure", Refused, False),
        (403, "Permission check failed (/pool/x, Pool.Allocate)", RightMissing, False),
        (500, "VM is locked (clone)", Locked, True),
        (500, "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout", Locked, True),
        (500, "cluster not ready - no quorum?", NoQuorum, True),
        (500, "unable to create VM 100: config file already exists", AlreadyExists, False),
        (400, "Token already exists.", AlreadyExists, False),
        (500, "checksum mismatch (file change by other user?)", Changed, True),
        (500, "Configuration file 'nodes/pve1/qemu-server/100.conf' does not exist", NotThere, False),
        (400, "no such task", NotThere, False),
        (500, "no such user ('x@pve')", NotThere, False),
        (400, "Parameter verification failed.", BadParameter, False),
        (501, "Method 'GET /pools/a/b' not implemented", NotSupported, False),
        (595, "No route to host", Unreachable, True),
        (503, "Service Unavailable", Unreachable, True),
        (500, "start failed: QEMU exited with code 1", Failed, True),
    ],
)
def test_classes(status: int, text: str, kind: type[ProxmoxError], retry: bool) -> None:
    error = classify(status, text)
    assert type(error) is kind
    assert error.retry is retry
    assert text in str(error)


@pytest.mark.parametrize("text", ["OK", "WARNINGS: 2"])
def test_a_task_with_warnings_is_a_success(text: str) -> None:
    assert classify_task(text) is None


def test_a_failed_task_has_the_same_classes() -> None:
    assert isinstance(classify_task("clone failed: can't lock file '/var/lock/x' - got timeout"), Locked)
    assert isinstance(classify_task("unable to create VM 9: config file already exists"), AlreadyExists)


def test_masking() -> None:
    text = mask("a secret-value, PVE:dev@pve:65A1B2C3::c2lnbmF0dXJl and PVEAPIToken=a@pve!b=0f0e0d", ["secret-value"])
    assert "secret-value" not in text
    assert "c2lnbmF0dXJl" not in text
    assert "0f0e0d" not in text
