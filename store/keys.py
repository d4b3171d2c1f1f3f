"""Keys of the secret box: where they come from and how they are told apart.

A key file holds one base64 key of 32 bytes a line. The first is the active one (new secrets are sealed with it), the
others stay readable, so that a key is changed by putting a new line on top and resealing. A key's id is derived from
the key, so a file needs no names and two processes always agree.
"""

import base64
import binascii
import hashlib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from store.errors import KeyUnusable

ENVIRONMENT = "TRILITHON_KEY"
KEY_BYTES = 32


def _key_id(key: bytes) -> str:
    return hashlib.sha256(b"trilithon secret box key id\0" + key).hexdigest()[:12]


class SecretKey:
    """The keys that a store can read with, one of them active. Never printed."""

    def __init__(self, keys: Mapping[str, bytes], active: str) -> None:
        self._keys = dict(keys)
        self.active = active
        """Id of the key that seals."""

    def __repr__(self) -> str:
        return f"SecretKey(active={self.active}, readable={len(self._keys)})"

    def key(self, key_id: str) -> bytes | None:
        """The key of this id, or None when we do not have it."""
        return self._keys.get(key_id)

    @classmethod
    def load(cls, path: Path | str | None = None) -> "SecretKey":
        """Reads the keys from a file, or with None from the environment variable TRILITHON_KEY.

        Raises KeyUnusable when nothing is there, a line is no key, or the file may be read by others than its owner.
        """
        if path is None:
            value = os.environ.get(ENVIRONMENT, "")
            if not value.strip():
                raise KeyUnusable(f"{ENVIRONMENT} is not set and no key file was named")
            return cls._parse(value.replace(",", "\n"), ENVIRONMENT)
        path = Path(path)
        try:
            with path.open("rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                text = file.read().decode("ascii", "replace")
        except OSError as error:
            raise KeyUnusable(f"key file {path} cannot be read: {error.strerror}") from error
        if mode & 0o077:
            raise KeyUnusable(f"key file {path} may be read by others (mode {mode & 0o777:04o}); run: chmod 600 {path}")
        return cls._parse(text, str(path))

    @classmethod
    def create(cls, path: Path | str) -> "SecretKey":
        """Makes a new key file that only its owner may read. Raises KeyUnusable when the file is there already."""
        line = base64.b64encode(secrets.token_bytes(KEY_BYTES)) + b"\n"
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise KeyUnusable(f"key file {path} cannot be made: {error.strerror}") from error
        with os.fdopen(descriptor, "wb") as file:
            file.write(line)
            file.flush()
            # Losing the key loses every secret, so it must be on disk before the first secret is sealed with it.
            os.fsync(file.fileno())
        return cls.load(path)

    @classmethod
    def generate(cls) -> "SecretKey":
        """A key that is kept nowhere, for tests."""
        key = secrets.token_bytes(KEY_BYTES)
        return cls({_key_id(key): key}, _key_id(key))

    @classmethod
    def _parse(cls, text: str, source: str) -> "SecretKey":
        keys: dict[str, bytes] = {}
        active = ""
        for number, line in enumerate(text.splitlines(), start=1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            try:
                key = base64.b64decode(line, validate=True)
            except (binascii.Error, ValueError):
                key = b""
            if len(key) != KEY_BYTES:
                raise KeyUnusable(f"{source}, line {number}: not a base64 key of {KEY_BYTES} bytes")
            keys[_key_id(key)] = key
            active = active or _key_id(key)
        if not active:
            raise KeyUnusable(f"{source} holds no key")
        return cls(keys, active)
