"""The contract finds a wrong double: each heading turns red on a double with one fault, and says what it saw."""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.contract.wrong_doubles import FAULTS, Fault

HERE = Path(__file__).parent
LIMIT = 240
HEADINGS = (
    "test_list_and_watch",
    "test_conflicts",
    "test_patches",
    "test_apply",
    "test_status",
    "test_eviction",
    "test_certificates",
    "test_rbac",
    "test_tokens",
    "test_nodes",
    "test_leases",
    "test_discovery",
)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], dict[str, str]]:
    """What each case said, by heading and fault: "" where it passed. All wrong doubles run in one inner pytest."""
    report = tmp_path_factory.mktemp("wrong") / "report.xml"
    headings = [str(HERE / f"{name}.py") for name in sorted({fault.heading for fault in FAULTS})]
    command = [sys.executable, "-m", "pytest", "--wrong", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
    done = subprocess.run(
        [*command, *headings], cwd=HERE.parents[1], capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]
    found: dict[tuple[str, str], dict[str, str]] = {}
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 - written by our own run
        name, _, parameters = case.attrib["name"].partition("[")
        fault = next(fault for fault in FAULTS if parameters.startswith(fault.name))
        errors = case.findall("error")
        assert not errors, f"the wrong double did not even run: {errors[0].text}"
        said = "".join(failure.text or "" for failure in case.findall("failure"))
        cases = found.setdefault((fault.heading, fault.name), {})
        cases[name] = cases.get(name, "") + said
    return found


@pytest.mark.parametrize("heading", HEADINGS)
def test_a_heading_has_a_wrong_double_and_at_least_five_cases(heading: str) -> None:
    assert heading in {fault.heading for fault in FAULTS}
    assert (HERE / f"{heading}.py").read_text().count("\nasync def test_") >= 5


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_heading_turns_red(told: dict[tuple[str, str], dict[str, str]], fault: Fault) -> None:
    cases = told[fault.heading, fault.name]
    for name, words in fault.seen_by.items():
        assert cases[name], f"{name} did not see it; those that did: {[one for one, said in cases.items() if said]}"
        assert words in cases[name]
    # A fault that breaks everything would show nothing about a case.
    assert any(not said for said in cases.values())
