package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ErrForged says that a message is too old, or was not signed with the secret.
var ErrForged = errors.New("webhook: forged or too old")

// Verify returns nil if the body was signed with the secret within the last five minutes.
func Verify(secret string, header http.Header, body []byte) error {
	id, stamp := header.Get("webhook-id"), header.Get("webhook-timestamp")
	sent, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || time.Since(time.Unix(sent, 0)).Abs() > 5*time.Minute {
		return ErrForged
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + stamp + "."))
	mac.Write(body)
	expected := mac.Sum(nil)
	for _, signature := range strings.Fields(header.Get("webhook-signature")) { // two, while a secret is rotated
		version, given, _ := strings.Cut(signature, ",")
		decoded, err := base64.StdEncoding.DecodeString(given)
		if version == "v1" && err == nil && hmac.Equal(decoded, expected) {
			return nil
		}
	}
	return ErrForged
}
