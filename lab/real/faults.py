"""What is wrong with a machine before it boots: its boot data, its tree, and strangers on its network.

A rule names VMs by a pattern and is applied at power-on, between the ISO and the first process. The product knows
nothing of it: what it then sees is what a real machine shows that has this fault.
"""

import fnmatch
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from lab.real.seed import SEED

HEAD = "#cloud-config\n"


@dataclass(frozen=True)
class Rule:
    """One fault.

    `name`: which VMs, as a shell pattern. `never_agent`: the guest agent never answers. `drop`: files that the boot
    data no longer write. `edit`: for a file of the boot data, regular expressions with what takes their place. `files`:
    files of the machine's disk with their content; a content that begins with `#!` is a program. `links`: symbolic
    links of the disk with what they point to; an empty text removes what is there.
    """

    name: str
    never_agent: bool = False
    drop: tuple[str, ...] = ()
    edit: dict[str, list[list[str]]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Rule":
        """Raises ValueError for a rule that says nothing, or something unknown."""
        unknown = set(data) - set(cls.__dataclass_fields__)
        if unknown or set(data) <= {"name"} or "name" not in data:
            raise ValueError(
                f"a fault has a name and of {', '.join(cls.__dataclass_fields__)} at least one; not {data}"
            )
        return cls(**{**data, "drop": tuple(data.get("drop", ()))})

    def hits(self, name: str) -> bool:
        """True for the VMs that the rule means."""
        return fnmatch.fnmatchcase(name, self.name)


class Faults:
    """The rules in force."""

    def __init__(self) -> None:
        self.rules: list[Rule] = []

    def never_agent(self, name: str) -> bool:
        """True when the guest agent of this VM must not answer."""
        return any(rule.never_agent for rule in self.rules if rule.hits(name))

    def hurt(self, name: str, root: Path) -> None:
        """Applies every rule about a VM to its tree, whose seed is laid.

        Raises:
            ValueError: a rule finds nothing to change: the boot data are other than it believes.
        """
        for rule in self.rules:
            if not rule.hits(name):
                continue
            if (rule.drop or rule.edit) and (root / SEED / "user-data").exists():
                _rewrite(root / SEED / "user-data", rule)
            _place(root, rule)


def _rewrite(user_data: Path, rule: Rule) -> None:
    text = user_data.read_text()
    document = yaml.safe_load(text)
    written = {row["path"]: row for row in document["write_files"]}
    absent = [path for path in (*rule.drop, *rule.edit) if path not in written]
    if absent:
        raise ValueError(f"the boot data write no {', '.join(absent)}; they write {', '.join(sorted(written))}")
    for path, changes in rule.edit.items():
        for pattern, new in changes:
            content, count = re.subn(pattern, new, written[path]["content"], flags=re.M)
            if not count:
                raise ValueError(f"{path} holds nothing like {pattern!r}")
            written[path]["content"] = content
    document["write_files"] = [row for path, row in written.items() if path not in rule.drop]
    user_data.write_text(HEAD + yaml.safe_dump(document, sort_keys=False, width=1 << 20))


def _place(root: Path, rule: Rule) -> None:
    for path, content in rule.files.items():
        target = _cleared(root, path)
        target.write_text(content)
        target.chmod(0o755 if content.startswith("#!") else 0o644)
    for path, points_to in rule.links.items():
        target = _cleared(root, path)
        if points_to:
            target.symlink_to(points_to)


def _cleared(root: Path, path: str) -> Path:
    target = root / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    target.unlink(missing_ok=True)
    return target


def rules_of(body: Any) -> Iterable[Rule]:
    """Rules from a JSON object or a list of them. Raises ValueError."""
    return [Rule.from_json(row) for row in (body if isinstance(body, list) else [body])]
