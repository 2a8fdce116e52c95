// Reads [[secret, headers, body], …] and says of each whether the public library verifies it.
const { createRequire } = require("node:module");
const { Webhook } = createRequire(`${process.argv[2]}/`)("standardwebhooks");

let asked = "";
process.stdin.on("data", (part) => (asked += part));
process.stdin.on("end", () => {
  const answers = JSON.parse(asked).map(([secret, headers, body]) => {
    try {
      new Webhook(secret).verify(body, headers);
      return true;
    } catch (refusal) {
      if (refusal.name !== "WebhookVerificationError" && refusal.constructor.name !== "WebhookVerificationError") throw refusal;
      return false;
    }
  });
  process.stdout.write(JSON.stringify(answers));
});
