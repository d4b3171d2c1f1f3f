"""What can be wrong, as data: violations of a manifest, and the codes that every face answers with.

The tree of answers. Class says who can mend it: `user` (change what you sent), `rights` (ask for a privilege),
`capacity` (make room; waiting may do), `proxmox` (look at Proxmox VE), `network` (make the other side reachable), `bug`
(tell us). `exit` is the CLI's; 2 is kept for wrong usage of the command line and 130 for Ctrl-C.

    code                   class     HTTP  exit  when
    malformed              user      400   1     the request cannot be read at all
    not-signed-in          user      401   1     no session, or it has ended
    sign-in-refused        user      401   1     Proxmox VE refused name, password or second factor
    factor-not-supported   user      401   1     realm or second factor of a kind that we do not support yet (named)
    invalid-spec           user      422   1     one or more violations; all of them are in the answer
    invalid-request        user      422   1     a value of another request (site, template, filter) breaks its rule
    name-not-confirmed     user      422   1     a deletion without the name that proves that it is meant
    not-found              user      404   1     does not exist, or may not be seen (byte-equal)
    already-exists         user      409   1     name is taken by a living thing that may be seen
    conflict               user      409   1     changed by somebody else since it was read
    in-use                 user      409   1     still needed by something that is named
    idempotency-reused     user      422   1     the same idempotency key came with another request
    not-awaiting           user      409   1     a decision was sent to a job that is not parked
    too-large              user      413   1     the request is larger than we read
    too-many-attempts      user      429   1     sign-in failed too often from there; the answer says how long to wait
    not-built              user      501   1     we know what is asked for, and do not do it yet
    timed-out              user      504   124   `wait` gave up; the job goes on
    awaiting-decision      user      409   1     `wait` met a parked job; the answer names the decisions
    right-missing          rights    403   1     a Proxmox VE privilege is missing; privilege and path are named
    csrf-missing           rights    403   1     a change without the session's CSRF token
    no-free-address        capacity  409   1     the cluster's node addresses are used up
    no-free-vmid           capacity  409   1     the site's range of VM ids is used up
    token-refused          proxmox   422   1     Proxmox VE does not accept the API token that was given for a site
    proxmox-refused        proxmox   502   1     Proxmox VE refused a call of ours; its own text is in the answer
    proxmox-no-quorum      proxmox   503   1     the Proxmox VE cluster is read-only for now
    certificate-not-pinned network   422   1     the certificate there is not the given one; what is there is shown
    proxmox-unreachable    network   503   1     none of the site's endpoints answers
    engine-away            network   503   1     the Temporal server does not answer (changes are kept all the same)
    store-unavailable      network   503   1     our database does not answer
    internal               bug       500   1     anything else; the answer holds an id to find it in our log

`FACES` is this table for programs; a test compares the two.
"""

from enum import StrEnum

from domain.frozen import Frozen


class ErrorClass(StrEnum):
    """Who can mend an error."""

    USER = "user"
    RIGHTS = "rights"
    CAPACITY = "capacity"
    PROXMOX = "proxmox"
    NETWORK = "network"
    BUG = "bug"


class ErrorCode(StrEnum):
    """Stable words for every refusal; the module's table says when each is used."""

    MALFORMED = "malformed"
    NOT_SIGNED_IN = "not-signed-in"
    SIGN_IN_REFUSED = "sign-in-refused"
    FACTOR_NOT_SUPPORTED = "factor-not-supported"
    INVALID_SPEC = "invalid-spec"
    INVALID_REQUEST = "invalid-request"
    NAME_NOT_CONFIRMED = "name-not-confirmed"
    NOT_FOUND = "not-found"
    ALREADY_EXISTS = "already-exists"
    CONFLICT = "conflict"
    IN_USE = "in-use"
    IDEMPOTENCY_REUSED = "idempotency-reused"
    NOT_AWAITING = "not-awaiting"
    TOO_LARGE = "too-large"
    TOO_MANY_ATTEMPTS = "too-many-attempts"
    NOT_BUILT = "not-built"
    TIMED_OUT = "timed-out"
    AWAITING_DECISION = "awaiting-decision"
    RIGHT_MISSING = "right-missing"
    CSRF_MISSING = "csrf-missing"
    NO_FREE_ADDRESS = "no-free-address"
    NO_FREE_VMID = "no-free-vmid"
    TOKEN_REFUSED = "token-refused"  # noqa: S105 - the name of an error
    PROXMOX_REFUSED = "proxmox-refused"
    PROXMOX_NO_QUORUM = "proxmox-no-quorum"
    CERTIFICATE_NOT_PINNED = "certificate-not-pinned"
    PROXMOX_UNREACHABLE = "proxmox-unreachable"
    ENGINE_AWAY = "engine-away"
    STORE_UNAVAILABLE = "store-unavailable"
    INTERNAL = "internal"


class Face(Frozen):
    """How an error shows: its class, the HTTP status and the CLI's exit code."""

    error_class: ErrorClass
    http: int
    exit: int = 1


FACES: dict[ErrorCode, Face] = {
    ErrorCode.MALFORMED: Face(error_class=ErrorClass.USER, http=400),
    ErrorCode.NOT_SIGNED_IN: Face(error_class=ErrorClass.USER, http=401),
    ErrorCode.SIGN_IN_REFUSED: Face(error_class=ErrorClass.USER, http=401),
    ErrorCode.FACTOR_NOT_SUPPORTED: Face(error_class=ErrorClass.USER, http=401),
    ErrorCode.INVALID_SPEC: Face(error_class=ErrorClass.USER, http=422),
    ErrorCode.INVALID_REQUEST: Face(error_class=ErrorClass.USER, http=422),
    ErrorCode.NAME_NOT_CONFIRMED: Face(error_class=ErrorClass.USER, http=422),
    ErrorCode.NOT_FOUND: Face(error_class=ErrorClass.USER, http=404),
    ErrorCode.ALREADY_EXISTS: Face(error_class=ErrorClass.USER, http=409),
    ErrorCode.CONFLICT: Face(error_class=ErrorClass.USER, http=409),
    ErrorCode.IN_USE: Face(error_class=ErrorClass.USER, http=409),
    ErrorCode.IDEMPOTENCY_REUSED: Face(error_class=ErrorClass.USER, http=422),
    ErrorCode.NOT_AWAITING: Face(error_class=ErrorClass.USER, http=409),
    ErrorCode.TOO_LARGE: Face(error_class=ErrorClass.USER, http=413),
    ErrorCode.TOO_MANY_ATTEMPTS: Face(error_class=ErrorClass.USER, http=429),
    ErrorCode.NOT_BUILT: Face(error_class=ErrorClass.USER, http=501),
    ErrorCode.TIMED_OUT: Face(error_class=ErrorClass.USER, http=504, exit=124),
    ErrorCode.AWAITING_DECISION: Face(error_class=ErrorClass.USER, http=409),
    ErrorCode.RIGHT_MISSING: Face(error_class=ErrorClass.RIGHTS, http=403),
    ErrorCode.CSRF_MISSING: Face(error_class=ErrorClass.RIGHTS, http=403),
    ErrorCode.NO_FREE_ADDRESS: Face(error_class=ErrorClass.CAPACITY, http=409),
    ErrorCode.NO_FREE_VMID: Face(error_class=ErrorClass.CAPACITY, http=409),
    ErrorCode.TOKEN_REFUSED: Face(error_class=ErrorClass.PROXMOX, http=422),
    ErrorCode.PROXMOX_REFUSED: Face(error_class=ErrorClass.PROXMOX, http=502),
    ErrorCode.PROXMOX_NO_QUORUM: Face(error_class=ErrorClass.PROXMOX, http=503),
    ErrorCode.CERTIFICATE_NOT_PINNED: Face(error_class=ErrorClass.NETWORK, http=422),
    ErrorCode.PROXMOX_UNREACHABLE: Face(error_class=ErrorClass.NETWORK, http=503),
    ErrorCode.ENGINE_AWAY: Face(error_class=ErrorClass.NETWORK, http=503),
    ErrorCode.STORE_UNAVAILABLE: Face(error_class=ErrorClass.NETWORK, http=503),
    ErrorCode.INTERNAL: Face(error_class=ErrorClass.BUG, http=500),
}


class ViolationCode(StrEnum):
    """What kind of rule a value breaks. The code is stable; message and remedy are for people."""

    REQUIRED = "Required"
    """Left out, though nothing can be done without it."""
    WRONG_TYPE = "WrongType"
    """Another kind of value than the field holds, for example a number without quotes where text is expected."""
    UNKNOWN_FIELD = "UnknownField"
    """We know no such field; a misspelt setting must not be dropped in silence."""
    UNKNOWN_VARIABLE = "UnknownVariable"
    """The class has no variable of that name."""
    DUPLICATE = "Duplicate"
    """The same name, address or entry twice."""
    NOT_SUPPORTED = "NotSupported"
    """Not one of the values that we, or this distribution, offer."""
    MALFORMED = "Malformed"
    """The text is not in the form that the field has (name, address, version, time ...)."""
    OUT_OF_RANGE = "OutOfRange"
    """A number, length or count beyond its bounds."""
    OUTSIDE_NETWORK = "OutsideNetwork"
    """An address that does not lie in the nodes' network."""
    OVERLAPS = "Overlaps"
    """Two ranges or addresses that must stay clear of each other do not."""
    IN_USE = "InUse"
    """Another cluster has it already."""
    CONFLICTS = "Conflicts"
    """Two settings of the same manifest contradict each other."""
    IMMUTABLE = "Immutable"
    """Fixed for the cluster's life."""
    NOT_ALLOWED = "NotAllowed"
    """The site's administrator did not open it for clusters."""
    NOT_AVAILABLE = "NotAvailable"
    """It could be, but the site does not have it now (a template that is not built yet)."""


class Violation(Frozen):
    """One rule broken by one field.

    `path` is where, as in `spec.topology.variables[network].prefix`; `message` what is wrong; `remedy` what to do.
    """

    path: str
    code: ViolationCode
    message: str
    remedy: str


def shown(value: object, limit: int = 60) -> str:
    """A value from outside as it can stand in a message: short, on one line, and never an error itself."""
    try:
        text = repr(value) if isinstance(value, str) else str(value)
    except (ValueError, RecursionError):
        # Integers beyond the interpreter's digits limit, and structures that hold themselves.
        text = "a value too large to show"
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= limit else text[: limit - 1] + "…"
