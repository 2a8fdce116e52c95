"""All use cases of identity: set-up, sign-in, second factors, links, invitations and the audit log.

There is no default password and no open registration. Attempts are limited. No response reveals whether an email
address has an account. Every action in a user's name is in the audit log that the user can read.
"""

from outcry.people.email_flows import EmailFlows
from outcry.people.identity_base import SecondFactorRequired
from outcry.people.openid import OpenId
from outcry.people.passkeys import Passkeys
from outcry.people.password_sign_in import PasswordSignIn
from outcry.people.security import Security

__all__ = ["Identity", "SecondFactorRequired"]


class Identity(PasswordSignIn, EmailFlows, Passkeys, Security, OpenId):
    """All use cases of identity, combined from the sign-in methods.

    All methods may block and raise `StoreBusy`. Methods that check credentials raise `Refused`.
    """
