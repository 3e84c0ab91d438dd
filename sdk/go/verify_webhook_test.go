package licensing

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	webhookSecret = "whsec_3mTqE8v5k0bN7cXyRz1wLhJdUoPsAfGiQe2M9nB4tVu"
	otherSecret   = "whsec_Zt8KpW2mC6xRj4YvB1nQe7LsHaUdFgOi5M3kTzVwXyN"
	// The example of the specification of Standard Webhooks.
	standardSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
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

func reasonOf(err error) WebhookReason {
	var refusal *WebhookError
	if errors.As(err, &refusal) && strings.HasPrefix(err.Error(), "licensing: ") {
		return refusal.Reason
	}
	return WebhookReason(fmt.Sprint(err))
}

func TestWebhookVectors(t *testing.T) {
	var deliveries []struct {
		Name      string
		Clock     string
		Body      string
		Bytes     []byte `json:"body_base64"`
		Signature string
		Headers   map[string]string
		Secrets   []string
		Tolerance float64 `json:"tolerance_seconds"`
		Reason    *WebhookReason
	}
	readJSON(filepath.Join(vectorsFolder, "webhooks.json"), &deliveries)
	for _, delivery := range deliveries {
		t.Run(delivery.Name, func(t *testing.T) {
			header := http.Header{}
			if delivery.Signature != "" {
				header.Set("Webhook-Signature", delivery.Signature)
			}
			for name, value := range delivery.Headers {
				header[name] = []string{value}
			}
			body := delivery.Bytes
			if body == nil {
				body = []byte(delivery.Body)
			}
			verifier := WebhookVerifier{
				Secrets: delivery.Secrets, Tolerance: time.Duration(delivery.Tolerance) * time.Second,
				Clock: func() time.Time { return mustParse(delivery.Clock) },
			}
			event, err := verifier.Verify(body, header)
			expected := WebhookReason("<nil>")
			if delivery.Reason != nil {
				expected = *delivery.Reason
			}
			if reasonOf(err) != expected || (event == nil) == (err == nil) {
				t.Fatal(err)
			}
		})
	}
}

func TestAWebhookHeaderMayComeInTwoParts(t *testing.T) {
	signed := v1(webhookBody, webhookSecret, webhookNow)
	header := http.Header{"webhook-signature": {fmt.Sprintf("t=%d", webhookNow), "v1=" + signed}}
	verifier := WebhookVerifier{Secrets: []string{webhookSecret}, Clock: func() time.Time { return time.Unix(webhookNow, 0) }}
	if _, err := verifier.Verify([]byte(webhookBody), header); err != nil {
		t.Fatal(err)
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
