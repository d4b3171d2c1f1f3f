"""Client certificates for TLS without key files on disk.

Python's `ssl` loads a certificate only from a path. The key must not lie in a file system, so it is handed over in an
anonymous memory file, which is gone when its descriptor closes.
"""

import os
import ssl
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Identity:
    """Who we are and whom we trust: PEM texts.

    `ca` is the authority of the API server's certificate, `certificate` and `key` are ours.
    """

    ca: str
    certificate: str
    key: str = field(repr=False)

    def context(self) -> ssl.SSLContext:
        """A TLS context that trusts `ca` alone and presents our certificate.

        Raises:
            ssl.SSLError: a PEM text is not one.
        """
        context = ssl.create_default_context(cadata=self.ca)
        # Clusters whose authorities are years old stay reachable: strictness about extensions is the issuer's matter.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        descriptor = os.memfd_create("identity", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, f"{self.certificate.rstrip()}\n{self.key.rstrip()}\n".encode())
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)
        return context
