package licensing

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"
)

const (
	webhookSecret = "whsec_3mTqE8v5k0bN7cXyRz1wLhJdUoPsAfGiQe2M9nB4tVu"
	otherSecret   = "whsec_Zt8KpW2mC6xRj4YvB1nQe7LsHaUdFgOi5M3kTzVwXyN"
	// The example of the specification of Standard Webhooks.
	standardSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	otherStandard  = "whsec_Zm9ybWVyIHNlY3JldCBvZiAzMiBieXRlcyBpbiBhbGwgIQ=="
	webhookNow     = 1_795_255_200
	webhookBody    = `{ "id": "evt_1", "type": "licence.plan_changed", "api_version": "2026-11-01", "created_at": "2026-11-21T10:00:00.000Z",
		"sequence": 7, "account_id": "acct_1", "application_id": "app_1", "data": {"object": {"plan_id": "pln_2"}}, "previous": {"plan_id": "pln_1"} } `
)

func mac(key []byte, text string) []byte {
	hash := hmac.New(sha256.New, key)
	hash.Write([]byte(text))
	return hash.Sum(nil)
}

func v1(body, secret string, at any) string {
	return hex.EncodeToString(mac([]byte(secret), fmt.Sprint(at, ".", body)))
}

func defaultHeader(body, secret string, at any) http.Header {
	return http.Header{"Webhook-Signature": {fmt.Sprintf("t=%v,v1=%s", at, v1(body, secret, at))}}
}

func standardV1(body, secret string) string {
	key, _ := base64.StdEncoding.DecodeString(secret[len("whsec_"):])
	return "v1," + base64.StdEncoding.EncodeToString(mac(key, fmt.Sprintf("evt_1.%d.%s", webhookNow, body)))
}

func standardHeader(signature string, changes ...string) http.Header {
	header := http.Header{
		"webhook-id": {"evt_1"}, "Webhook-Timestamp": {fmt.Sprint(webhookNow)}, "WEBHOOK-SIGNATURE": {signature},
	}
	for at := 0; at < len(changes); at += 2 {
		header[changes[at]] = []string{changes[at+1]}
	}
	return header
}

func reasonOf(err error) WebhookReason {
	var refusal *WebhookError
	if errors.As(err, &refusal) && strings.HasPrefix(err.Error(), "licensing: ") {
		return refusal.Reason
	}
	return WebhookReason(fmt.Sprint(err))
}

func TestWebhooks(t *testing.T) {
	valid := WebhookReason("<nil>")
	signed := v1(webhookBody, webhookSecret, webhookNow)
	with := func(value string) http.Header { return http.Header{"Webhook-Signature": {value}} }
	standard := standardV1(webhookBody, standardSecret)
	for name, delivery := range map[string]struct {
		header   http.Header
		secrets  []string
		expected WebhookReason
	}{
		"a delivery":                     {defaultHeader(webhookBody, webhookSecret, webhookNow), nil, valid},
		"the first of several secrets":   {defaultHeader(webhookBody, webhookSecret, webhookNow), []string{webhookSecret, otherSecret}, valid},
		"the last of several secrets":    {defaultHeader(webhookBody, webhookSecret, webhookNow), []string{otherSecret, webhookSecret}, valid},
		"one of several signatures":      {with(fmt.Sprintf("t=%d,v1=%s,v1=%s", webhookNow, v1(webhookBody, otherSecret, webhookNow), signed)), nil, valid},
		"signatures of other schemes":    {with(fmt.Sprintf("v0=abc, t=%d, v1=%s , v2=def", webhookNow, signed)), nil, valid},
		"a header in two parts":          {http.Header{"webhook-signature": {fmt.Sprintf("t=%d", webhookNow), "v1=" + signed}}, nil, valid},
		"a delivery of 300 s ago":        {defaultHeader(webhookBody, webhookSecret, webhookNow-300), nil, valid},
		"a delivery of 301 s ago":        {defaultHeader(webhookBody, webhookSecret, webhookNow-301), nil, WebhookTimestampOutsideTolerance},
		"a delivery of the future":       {defaultHeader(webhookBody, webhookSecret, webhookNow+301), nil, WebhookTimestampOutsideTolerance},
		"no secret":                      {with(""), []string{}, WebhookNoSecret},
		"an empty secret":                {defaultHeader(webhookBody, webhookSecret, webhookNow), []string{webhookSecret, ""}, WebhookNoSecret},
		"no header":                      {nil, nil, WebhookMalformedHeader},
		"no time":                        {with("v1=" + signed), nil, WebhookMalformedHeader},
		"two times":                      {with(fmt.Sprintf("t=%d,t=%d,v1=%s", webhookNow, webhookNow, signed)), nil, WebhookMalformedHeader},
		"a time that is no number":       {defaultHeader(webhookBody, webhookSecret, "1e9"), nil, WebhookMalformedHeader},
		"a time in other digits":         {defaultHeader(webhookBody, webhookSecret, "١٢٣"), nil, WebhookMalformedHeader},
		"no signature":                   {with(fmt.Sprintf("t=%d", webhookNow)), nil, WebhookMalformedHeader},
		"a signature in capitals":        {with(fmt.Sprintf("t=%d,v1=%s", webhookNow, strings.ToUpper(signed))), nil, WebhookMalformedHeader},
		"a short signature":              {with(fmt.Sprintf("t=%d,v1=%s", webhookNow, signed[2:])), nil, WebhookMalformedHeader},
		"another secret":                 {defaultHeader(webhookBody, otherSecret, webhookNow), nil, WebhookSignatureMismatch},
		"another time":                   {with(fmt.Sprintf("t=%d,v1=%s", webhookNow+1, signed)), nil, WebhookSignatureMismatch},
		"another body":                   {defaultHeader(webhookBody+" ", webhookSecret, webhookNow), nil, WebhookSignatureMismatch},
		"a standard delivery":            {standardHeader(standard), []string{standardSecret}, valid},
		"standard: several secrets":      {standardHeader(standard), []string{otherStandard, webhookSecret, standardSecret}, valid},
		"standard: several signatures":   {standardHeader("v1a,x " + standardV1(webhookBody, otherStandard) + " " + standard), []string{standardSecret}, valid},
		"standard: no id":                {standardHeader(standard, "webhook-id", ""), []string{standardSecret}, WebhookMalformedHeader},
		"standard: a bad time":           {standardHeader(standard, "Webhook-Timestamp", "now"), []string{standardSecret}, WebhookMalformedHeader},
		"standard: no signature":         {standardHeader("v1,abc"), []string{standardSecret}, WebhookMalformedHeader},
		"standard: the value alone":      {with(standard), []string{standardSecret}, WebhookMalformedHeader},
		"standard: another secret":       {standardHeader(standardV1(webhookBody, otherStandard)), []string{standardSecret}, WebhookSignatureMismatch},
		"standard: another id":           {standardHeader(standard, "webhook-id", "evt_2"), []string{standardSecret}, WebhookSignatureMismatch},
		"standard: another time":         {standardHeader(standard, "Webhook-Timestamp", fmt.Sprint(webhookNow+1)), []string{standardSecret}, WebhookSignatureMismatch},
		"standard: a secret of no bytes": {standardHeader(standard), []string{"whsec_$"}, WebhookSignatureMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			verifier := WebhookVerifier{Secrets: delivery.secrets, Clock: func() time.Time { return time.Unix(webhookNow, 0) }}
			if delivery.secrets == nil {
				verifier.Secrets = []string{webhookSecret}
			}
			event, err := verifier.Verify([]byte(webhookBody), delivery.header)
			if reasonOf(err) != delivery.expected || (event == nil) == (err == nil) {
				t.Fatal(err)
			}
		})
	}
}

func TestAWebhookOfTheSpecificationOfStandardWebhooks(t *testing.T) {
	header := http.Header{
		"Webhook-Id": {"msg_p5jXN8AQM9LWM0D4loKWxJek"}, "Webhook-Timestamp": {"1614265330"},
		"Webhook-Signature": {"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
	}
	verifier := WebhookVerifier{Secrets: []string{standardSecret}, Clock: func() time.Time { return time.Unix(1614265330, 0) }}
	// The signature is right, and only the body is not an event.
	if _, err := verifier.Verify([]byte(`{"test": 2432232314}`), header); reasonOf(err) != WebhookMalformedBody {
		t.Fatal(err)
	}
}

func TestAWebhookHasItsEvent(t *testing.T) {
	now := time.Now().Unix()
	event, err := VerifyWebhook([]byte(webhookBody), defaultHeader(webhookBody, webhookSecret, now), otherSecret, webhookSecret)
	if err != nil {
		t.Fatal(err)
	}
	var plan struct {
		ID string `json:"plan_id"`
	}
	if json.Unmarshal(event.Data.Object, &plan) != nil || plan.ID != "pln_2" || string(event.Previous) != `{"plan_id": "pln_1"}` ||
		event.ID != "evt_1" || event.Sequence != 7 || event.CreatedAt.Year() != 2026 || event.ApplicationID != "app_1" {
		t.Fatal(event)
	}
}

func TestAWebhookWithAnotherBodyIsMalformed(t *testing.T) {
	for _, body := range []string{"not json", "[]", "null", `{"id":1}`, `{"id":"evt_1","type":"x"}`, "\"\xFF\"", `{"id":"` + "\xFF" + `","type":"x","data":{}}`} {
		verifier := WebhookVerifier{Secrets: []string{webhookSecret}, Tolerance: 24 * time.Hour}
		if _, err := verifier.Verify([]byte(body), defaultHeader(body, webhookSecret, time.Now().Add(-time.Hour).Unix())); reasonOf(err) != WebhookMalformedBody {
			t.Fatal(body, err)
		}
	}
}

func TestAWebhookInWhichAnyBitWasChangedIsRefused(t *testing.T) {
	header := defaultHeader(webhookBody, webhookSecret, webhookNow)
	for at := range len(webhookBody) {
		changed := []byte(webhookBody)
		changed[at] ^= 1 << rand.IntN(8)
		if _, err := VerifyWebhook(changed, header, webhookSecret); reasonOf(err) != WebhookSignatureMismatch {
			t.Fatal(err)
		}
	}
}
