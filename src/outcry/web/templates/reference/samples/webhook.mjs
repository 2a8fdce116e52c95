const bytes = (base64) => Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));

/** Throws unless this was signed with the secret, lately. headers: a Headers object; body: the text as it came. */
export async function verify(secret, headers, body, toleranceSeconds = 300) {
  const id = headers.get("webhook-id");
  const stamp = headers.get("webhook-timestamp");
  if (!(Math.abs(Date.now() / 1000 - Number(stamp)) <= toleranceSeconds)) {
    throw new Error("too old, or from the future");
  }
  const hmac = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", bytes(secret.replace(/^whsec_/, "")), hmac, false, ["verify"]);
  const signed = new TextEncoder().encode(`${id}.${stamp}.${body}`);
  for (const signature of (headers.get("webhook-signature") ?? "").split(" ")) { // two, while a secret is rotated
    const [version, given] = signature.split(",");
    if (version === "v1" && (await crypto.subtle.verify("HMAC", key, bytes(given), signed))) return;
  }
  throw new Error("not signed with this secret");
}
