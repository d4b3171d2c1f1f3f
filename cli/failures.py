"""What ends a command early: an exit code and words for people on standard error."""

ERROR = 1
USAGE = 2
TIMED_OUT = 124
INTERRUPTED = 130


class Failure(Exception):
    """Ends the command. `remedy` says what can be done; `code` is the exit code."""

    def __init__(self, text: str, remedy: str = "", *, code: int = ERROR) -> None:
        super().__init__(text)
        self.remedy = remedy
        self.code = code


class Refusal(Failure):
    """The API refused: its problem document in words, every violation on a line of its own."""

    def __init__(self, problem: dict[str, object]) -> None:
        super().__init__(
            str(problem.get("detail") or problem.get("title") or "refused"), str(problem.get("remedy") or "")
        )
        self.problem = problem
        self.status = int(str(problem.get("status") or 0))

    def lines(self) -> list[str]:
        """The broken rules: `path: message remedy`."""
        rows = self.problem.get("violations")
        found = rows if isinstance(rows, list) else []
        return [f"{row['path']}: {row['message']} {row.get('remedy', '')}".rstrip() for row in found]
