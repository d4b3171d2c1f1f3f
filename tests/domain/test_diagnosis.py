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
