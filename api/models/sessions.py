"""Sign-in and the session of the person who signed in."""

from datetime import datetime

from pydantic import Field, SecretStr

from api.models.shapes import Allowed, Answer, Asked


class SignIn(Asked):
    """Sign-in with a Proxmox VE account, or with the local administrator account (`realm` = `local`, no site)."""

    site: str | None = Field(default=None, description="Name of the site; may be left out where there is only one.")
    realm: str = Field(min_length=1, max_length=64)
    username: str = Field(min_length=1, max_length=64)
    password: SecretStr = Field(max_length=4096)


class SecondFactorChallenge(Answer):
    """A password was right; one of `kinds` is asked for besides. `other_kinds` exist but are not supported yet."""

    challenge_id: str
    kinds: list[str]
    other_kinds: list[str] = Field(default_factory=list)
    expires_at: datetime


class SecondFactorNeeded(Answer):
    second_factor: SecondFactorChallenge


class SecondFactorAnswer(Asked):
    challenge_id: str = Field(max_length=8192)
    kind: str = Field(examples=["totp", "recovery"], max_length=32)
    code: SecretStr = Field(max_length=256)


class PersonRights(Answer):
    """What the person may do that is not about one cluster; each with the reason when it is off."""

    create_cluster: Allowed
    administer_sites: Allowed
    administer_site: Allowed
    administer_charts: Allowed
    read_audit: Allowed


class Session(Answer):
    """Who is signed in. `csrf` goes into the header `X-CSRF-Token` of every request that is not a GET."""

    user: str
    site: str | None
    local: bool
    csrf: str
    created_at: datetime
    renew_after: datetime = Field(description="From then on POST /session/renew prolongs the session.")
    expires_at: datetime
    may: PersonRights
