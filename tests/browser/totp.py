"""A time-based code (RFC 6238), as an authenticator shows it."""

import base64
import hmac
import struct
import time

STEP = 30


def code(secret: str) -> str:
    counter = struct.pack(">Q", int(time.time()) // STEP)
    digest = hmac.digest(base64.b32decode(secret), counter, "sha1")
    start = digest[-1] & 0x0F
    return f"{(struct.unpack('>I', digest[start : start + 4])[0] & 0x7FFFFFFF) % 1_000_000:06d}"
