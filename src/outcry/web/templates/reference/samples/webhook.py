import base64
import hashlib
import hmac
import time


def verify(secret: str, headers: dict[str, str], body: bytes, tolerance_s: int = 300) -> None:
    """Raise ValueError unless the body was signed with the secret in the last `tolerance_s` seconds.

    The names in `headers` are in lower case.
    """
    message_id, stamp = headers["webhook-id"], headers["webhook-timestamp"]
    if abs(time.time() - int(stamp)) > tolerance_s:
        raise ValueError("too old, or from the future")
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{message_id}.{stamp}.".encode() + body
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    for signature in headers["webhook-signature"].split():  # two, while a secret is rotated
        version, _, given = signature.partition(",")
        if version == "v1" and hmac.compare_digest(given, expected):
            return
    raise ValueError("not signed with this secret")
