/** Passkeys: pass the service's options to the browser, and send the browser's response to the service.
 *
 * All texts come from the server. An error is shown next to the button. The button is shown only if the browser supports
 * passkeys.
 */

import { words } from "./common.js";

const said = words("passkey-words");

// -- WebAuthn uses bytes, JSON uses base64url

function bytes(text) {
  const plain = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(plain, (sign) => sign.charCodeAt(0));
}

function text(buffer) {
  const plain = String.fromCharCode(...new Uint8Array(buffer));
  return btoa(plain).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

const listed = (credentials = []) => credentials.map((each) => ({ ...each, id: bytes(each.id) }));

async function made(options) {
  const credential = await navigator.credentials.create({
    publicKey: {
      ...options,
      challenge: bytes(options.challenge),
      user: { ...options.user, id: bytes(options.user.id) },
      excludeCredentials: listed(options.excludeCredentials),
    },
  });
  const { response } = credential;
  return {
    ...envelope(credential),
    response: {
      clientDataJSON: text(response.clientDataJSON),
      attestationObject: text(response.attestationObject),
      transports: response.getTransports?.() ?? [],
    },
  };
}

async function asked(options) {
  const credential = await navigator.credentials.get({
    publicKey: {
      ...options,
      challenge: bytes(options.challenge),
      allowCredentials: listed(options.allowCredentials),
    },
  });
  const { response } = credential;
  return {
    ...envelope(credential),
    response: {
      clientDataJSON: text(response.clientDataJSON),
      authenticatorData: text(response.authenticatorData),
      signature: text(response.signature),
      userHandle: response.userHandle ? text(response.userHandle) : null,
    },
  };
}

function envelope(credential) {
  return {
    id: credential.id,
    rawId: text(credential.rawId),
    type: credential.type,
    authenticatorAttachment: credential.authenticatorAttachment ?? null,
    clientExtensionResults: {},
  };
}

// -- requests to the service

async function send(path, csrf, message) {
  const response = await fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json", "x-csrf": csrf },
    body: JSON.stringify(message),
  });
  const answer = await response.json();
  if (answer.to && !response.ok) location.assign(answer.to);
  if (!response.ok) throw new Error(answer.message);
  return answer;
}

/** Return the server's text for an error. */
function complaint(fault) {
  if (fault instanceof DOMException) return fault.name === "InvalidStateError" ? said.known : said.stopped;
  return fault instanceof TypeError || fault instanceof SyntaxError ? said.lost : fault.message;
}

async function run(place) {
  const { passkey, ask, answer, csrf } = place.dataset;
  const { ticket, options } = await send(ask, csrf, {});
  const given = passkey === "create" ? await made(options) : await asked(options);
  const label = document.getElementById("f-label")?.value ?? "";
  const { to } = await send(answer, csrf, { ticket, answer: given, label });
  location.assign(to);
}

function prepare(place) {
  const [button, fault] = [place.querySelector("button"), place.querySelector("[role=alert]")];
  place.hidden = false;
  if (!window.PublicKeyCredential) {
    button.disabled = true;
    fault.textContent = said.none;
    fault.hidden = false;
    return;
  }
  button.addEventListener("click", async () => {
    button.disabled = true;
    fault.hidden = true;
    try {
      await run(place);
    } catch (problem) {
      fault.textContent = complaint(problem);
      fault.hidden = !fault.textContent;
      button.disabled = false;
      button.focus();
    }
  });
}

for (const place of document.querySelectorAll("[data-passkey]")) prepare(place);
