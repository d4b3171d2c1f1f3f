"""Fault rules and the journal: what goes wrong on purpose, and what really happened."""

import asyncio
import itertools
import re
import time
from dataclasses import dataclass, field

MATCH_KEYS = {"method", "path", "nth", "times", "user"}
DO_KEYS = {
    "status",
    "body",
    "text",
    "html",
    "errors",
    "delay",
    "cut",
    "cut_bytes",
    "task_exit",
    "task_delay",
    "task_lost",
}


@dataclass
class Rule:
    """One rule. `nth` counts matching calls from 1; without it every matching call is hit, `times` at most."""

    id: int
    match: dict
    do: dict
    seen: int = 0
    fired: int = 0
    pattern: re.Pattern = field(init=False)

    def __post_init__(self):
        unknown = (set(self.match) - MATCH_KEYS) | (set(self.do) - DO_KEYS)
        if unknown:
            raise ValueError(f"unknown keys in rule: {', '.join(sorted(unknown))}")
        if self.do.get("cut") not in (None, "before", "after"):
            raise ValueError("cut is 'before' or 'after'")
        self.pattern = re.compile(self.match.get("path", ""))

    def hits(self, method, path, user):
        """Count this call; True when the rule would act on it."""
        want = self.match
        if want.get("method") not in (None, method) or not self.pattern.search(path):
            return False
        if want.get("user") not in (None, user):
            return False
        self.seen += 1
        if want.get("nth") is not None and self.seen != int(want["nth"]):
            return False
        return want.get("times") is None or self.fired < int(want["times"])

    def view(self):
        """The rule as the control endpoint shows it."""
        return {"id": self.id, "match": self.match, "do": self.do, "seen": self.seen, "fired": self.fired}


class Faults:
    """The rules in force; the first that hits acts."""

    def __init__(self):
        self.rules = []
        self._ids = itertools.count(1)

    def add(self, match, do):
        """Put a rule in force. Raises ValueError for an unknown key or a bad pattern."""
        try:
            rule = Rule(next(self._ids), dict(match), dict(do))
        except re.error as e:
            raise ValueError(f"path is no regular expression: {e}") from e
        self.rules.append(rule)
        return rule

    def clear(self):
        """Drop every rule."""
        self.rules.clear()

    def plan(self, method, path, user):
        """What to do with this call, or an empty dict."""
        hit = [rule for rule in self.rules if rule.hits(method, path, user)]
        if not hit:
            return {}
        hit[0].fired += 1
        return hit[0].do


class Journal:
    """Every mutating call and every end of a task, numbered from 1."""

    def __init__(self):
        self.entries = []
        self._seq = itertools.count(1)
        self.grown = asyncio.Event()

    def add(self, kind, **fields):
        """Append an entry; answers it."""
        entry = {"seq": next(self._seq), "time": time.time(), "kind": kind, **fields}
        self.entries.append(entry)
        return entry

    def task_ended(self, task):
        """A task is over."""
        keys = {"upid": "upid", "node": "node", "type": "type", "id": "id", "user": "user", "exit": "exitstatus"}
        self.add("task", **{k: task.get(v) for k, v in keys.items()})

    def after(self, seq):
        """The entries numbered above seq."""
        return [e for e in self.entries if e["seq"] > seq]
