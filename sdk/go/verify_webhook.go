package licensing

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// WebhookEvent is the event of a delivery. The same event may come more than once, and events may arrive out of order: remember the ids
// that were handled, and see Sequence. New types appear over time: ignore a type that you do not know.
type WebhookEvent struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	// APIVersion is the version of the event's schema, YYYY-MM-DD.
	APIVersion string    `json:"api_version"`
	CreatedAt  time.Time `json:"created_at"`
	// Sequence rises by one with each event of the account.
	Sequence      int64  `json:"sequence"`
	AccountID     string `json:"account_id"`
	ApplicationID string `json:"application_id"`
	Data          struct {
		// Object depends on Type, as the guide of events says. It is small on purpose: fetch the licence for more.
		Object json.RawMessage `json:"object"`
	} `json:"data"`
	Previous json.RawMessage `json:"previous"`
}

// WebhookReason says why a delivery was refused.
type WebhookReason string

const (
	// WebhookNoSecret: no secret was given, or an empty one.
	WebhookNoSecret WebhookReason = "no_secret"
	// WebhookMalformedHeader: a header is missing, or has no time or no signature of the right form.
	WebhookMalformedHeader WebhookReason = "malformed_header"
	// WebhookSignatureMismatch: signed with another secret, or the body was changed (also by parsing and serialising it).
	WebhookSignatureMismatch WebhookReason = "signature_mismatch"
	// WebhookTimestampOutsideTolerance: signed too long ago, or in the future: perhaps a replay.
	WebhookTimestampOutsideTolerance WebhookReason = "timestamp_outside_tolerance"
	// WebhookMalformedBody: the signature is valid, but the body is not an event.
	WebhookMalformedBody WebhookReason = "malformed_body"
)

// WebhookError is a delivery that must not be acted on: answer it with 400.
type WebhookError struct {
	Reason  WebhookReason
	message string
}

func (e *WebhookError) Error() string {
	return "licensing: " + e.message
}

// WebhookVerifier verifies webhook deliveries with options. [VerifyWebhook] is enough for most receivers.
type WebhookVerifier struct {
	// Secrets are the endpoint's secret (whsec_…), or several while one is being rotated.
	Secrets []string
	// Tolerance is the largest difference between the time of the signature and the current time, in either direction. Default: 300
	// seconds.
	Tolerance time.Duration
	// Clock is the current time. Default: time.Now.
	Clock func() time.Time
}

// VerifyWebhook verifies a webhook delivery with the endpoint's secret, or several while one is being rotated, and returns its event.
// It accepts both signatures that an endpoint can have: default, and standard (Standard Webhooks). The body must be exactly as
// received. An error is a [*WebhookError]. If only the value of a default signature is known, give
// http.Header{"Webhook-Signature": {value}}.
//
//	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
//	…
//	event, err := licensing.VerifyWebhook(body, r.Header, secret)
func VerifyWebhook(body []byte, header http.Header, secrets ...string) (*WebhookEvent, error) {
	return WebhookVerifier{Secrets: secrets}.Verify(body, header)
}

// Verify is [VerifyWebhook] with options.
func (v WebhookVerifier) Verify(body []byte, header http.Header) (*WebhookEvent, error) {
	if len(v.Secrets) == 0 || slices.Contains(v.Secrets, "") {
		return nil, &WebhookError{WebhookNoSecret, "no signing secret was given"}
	}
	signature, err := readSignature(header)
	if err != nil {
		return nil, err
	}
	if !signature.isBy(v.Secrets, body) {
		return nil, &WebhookError{WebhookSignatureMismatch, "no signature matches the raw body and a secret"}
	}
	now := time.Now()
	if v.Clock != nil {
		now = v.Clock()
	}
	tolerance := 300.0
	if v.Tolerance > 0 {
		tolerance = v.Tolerance.Seconds()
	}
	age := float64(now.UnixMilli())/1000 - float64(signature.time)
	if math.Abs(age) > tolerance {
		message := fmt.Sprintf("signed %.0f s ago; the tolerance is %.0f s in either direction", age, tolerance)
		return nil, &WebhookError{WebhookTimestampOutsideTolerance, message}
	}
	return readEvent(body)
}

// signature is the signature of a delivery, of either form.
type signature struct {
	// time is in Unix seconds.
	time int64
	// head is signed before the body.
	head string
	macs [][]byte
	// keyOf is the key of a secret; nil if the secret cannot be one for this signature.
	keyOf func(secret string) []byte
}

// A default signature begins with its time. The parts of a standard one are separated by spaces.
var standardPattern = regexp.MustCompile(`(^|\s)v1,`)

func readSignature(header http.Header) (signature, error) {
	value := headerOf(header, "Webhook-Signature")
	if standardPattern.MatchString(value) {
		return readStandard(header, value)
	}
	return readDefault(value)
}

func readDefault(value string) (signature, error) {
	var times []string
	of := signature{keyOf: func(secret string) []byte { return []byte(secret) }}
	for _, part := range strings.Split(value, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch {
		case name == "t":
			times = append(times, value)
		case name == "v1" && value == strings.ToLower(value):
			of.add(hex.DecodeString(value))
		}
	}
	if len(times) != 1 || !of.setTime(times[0]) || len(of.macs) == 0 {
		return of, &WebhookError{WebhookMalformedHeader, "Webhook-Signature is not of the form t=…,v1=…"}
	}
	of.head = times[0] + "."
	return of, nil
}

func readStandard(header http.Header, value string) (signature, error) {
	id, timestamp := headerOf(header, "Webhook-Id"), headerOf(header, "Webhook-Timestamp")
	of := signature{head: id + "." + timestamp + "."}
	of.keyOf = func(secret string) []byte {
		text := strings.TrimPrefix(secret, "whsec_")
		key, err := base64.StdEncoding.DecodeString(text)
		// The decoder skips line ends.
		if err != nil || strings.ContainsAny(text, "\r\n") {
			return nil
		}
		return key
	}
	for _, part := range strings.Fields(value) {
		if text, isV1 := strings.CutPrefix(part, "v1,"); isV1 {
			of.add(base64.StdEncoding.DecodeString(text))
		}
	}
	if id == "" || !of.setTime(timestamp) || len(of.macs) == 0 {
		message := "webhook-id, webhook-timestamp or webhook-signature is missing or malformed"
		return of, &WebhookError{WebhookMalformedHeader, message}
	}
	return of, nil
}

func (s *signature) add(mac []byte, err error) {
	if err == nil && len(mac) == sha256.Size {
		s.macs = append(s.macs, mac)
	}
}

var timePattern = regexp.MustCompile(`^\d{1,15}$`)

func (s *signature) setTime(text string) bool {
	s.time, _ = strconv.ParseInt(text, 10, 64)
	return timePattern.MatchString(text)
}

// isBy compares in constant time. Every pair is tried, so that the duration does not reveal which pair matches.
func (s *signature) isBy(secrets []string, body []byte) bool {
	isSigned := false
	for _, secret := range secrets {
		key := s.keyOf(secret)
		if len(key) == 0 {
			continue
		}
		hash := hmac.New(sha256.New, key)
		hash.Write([]byte(s.head))
		hash.Write(body)
		expected := hash.Sum(nil)
		for _, mac := range s.macs {
			isEqual := hmac.Equal(mac, expected)
			isSigned = isSigned || isEqual
		}
	}
	return isSigned
}

// headerOf is the value of a header, whatever case its name has: a map that a framework made may have other cases than Go.
func headerOf(header http.Header, name string) string {
	for each, values := range header {
		if strings.EqualFold(each, name) {
			return strings.Join(values, ",")
		}
	}
	return ""
}

func readEvent(body []byte) (*WebhookEvent, error) {
	text := withoutMark(body)
	values := parseObject(text)
	if values == nil || !utf8.Valid(text) {
		return nil, &WebhookError{WebhookMalformedBody, "the body is not a JSON object"}
	}
	_, hasID := values["id"].(string)
	_, hasType := values["type"].(string)
	_, hasData := values["data"].(object)
	if !hasID || !hasType || !hasData {
		return nil, &WebhookError{WebhookMalformedBody, "the body is not an event"}
	}
	event := &WebhookEvent{}
	if err := json.Unmarshal(text, event); err != nil {
		return nil, &WebhookError{WebhookMalformedBody, err.Error()}
	}
	return event, nil
}
