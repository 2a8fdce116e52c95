"""Coming in and staying in: set-up, sign-in, second factors, links, invitations, and the audit log of all of it.

Rules kept: no default password and no open registration; every proof is tried a bounded number of times; a stranger
cannot learn whether an address has an account; what is done in a person's name is noted where that person can read it.
"""

from outcry.people.email_flows import EmailFlows
from outcry.people.identity_base import SecondFactorRequired
from outcry.people.openid import OpenId
from outcry.people.passkeys import Passkeys
from outcry.people.password_sign_in import PasswordSignIn
from outcry.people.security import Security

__all__ = ["Identity", "SecondFactorRequired"]


class Identity(PasswordSignIn, EmailFlows, Passkeys, Security, OpenId):
    """Everything about people. All methods may block and raise `StoreBusy`; those that take proofs raise `Refused`."""
