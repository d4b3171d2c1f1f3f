"""What can go wrong in the store.

StoreError
+-- NotFound            the row is not there (or no longer)
+-- AlreadyExists       a living row has this name; `existing_id` says which
+-- Conflict            the row changed since it was read, or its state forbids the write
|   +-- InProgress      the same request is being answered right now
+-- InUse               the row is still needed, or the address is taken; `what` says by whom
+-- NoFreeAddress       every address of the cluster's network is taken
+-- NoFreeVmid          the site's range of VM ids is full
+-- KeyUnusable         the key file or TRILITHON_KEY is missing, malformed or readable by others
+-- SecretUnreadable    sealed with a key that we do not have, or altered
+-- StoreUnavailable    locked or down; the same call may succeed later, nothing was written
"""


class StoreError(Exception):
    """Base of every error that the store raises on purpose. The message is for people and holds no secret."""


class NotFound(StoreError):
    def __init__(self, kind: str, key: str) -> None:
        super().__init__(f"{kind} {key} is not known here")
        self.kind = kind
        self.key = key


class AlreadyExists(StoreError):
    def __init__(self, message: str, existing_id: str) -> None:
        super().__init__(message)
        self.existing_id = existing_id


class Conflict(StoreError):
    """Read again, decide again."""


class InProgress(Conflict):
    """A request with the same idempotency key has begun and is not answered yet."""


class InUse(StoreError):
    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


class NoFreeAddress(StoreError):
    pass


class NoFreeVmid(StoreError):
    pass


class KeyUnusable(StoreError):
    pass


class SecretUnreadable(StoreError):
    pass


class StoreUnavailable(StoreError):
    """The database is locked or down. Callers try again later (API: 503 with Retry-After)."""
