// The driver of Go for the suite of all languages: sdk/suite/README.md describes its protocol. It reads requests from standard input
// as lines of JSON, and runs them at the same time.
package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"licensing.example/licensing"
)

type request struct {
	ID       json.RawMessage
	Call     string
	Client   string
	Argument json.RawMessage
	Options  options
}

type options struct {
	BaseURL        string   `json:"base_url"`
	AppID          string   `json:"app_id"`
	RootKey        someText `json:"root_key"`
	LicenceKey     string   `json:"licence_key"`
	Fingerprint    string
	Host           string
	ProductVersion string `json:"product_version"`
	StoreFile      string `json:"store_file"`
	TimeoutMs      int64  `json:"timeout_ms"`
	Background     *bool
}

// someText is one text or several.
type someText []string

func (s *someText) UnmarshalJSON(text []byte) error {
	var one *string
	if json.Unmarshal(text, &one) != nil {
		return json.Unmarshal(text, (*[]string)(s))
	}
	if one != nil {
		*s = someText{*one}
	}
	return nil
}

type answer map[string]any

// driven is a client with its clock: nanoseconds since 1970, or 0 for the real clock.
type driven struct {
	*licensing.Client
	clock *atomic.Int64
}

var (
	mu      sync.Mutex
	clients = map[string]driven{}
)

// isQuick has the calls that return at once. They end before the next request is read.
var isQuick = map[string]bool{
	"new": true, "clock": true, "state": true, "has_feature": true, "limit": true, "covers": true,
	"create_offline_request": true,
}

func main() {
	lines := bufio.NewReader(os.Stdin)
	var running sync.WaitGroup
	var output sync.Mutex
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var given request
		if err := json.Unmarshal(line, &given); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if given.Call == "exit" {
			var code int
			_ = json.Unmarshal(given.Argument, &code)
			os.Exit(code)
		}
		reply := func(found answer) {
			output.Lock()
			defer output.Unlock()
			write(given, found)
		}
		if isQuick[given.Call] {
			reply(obey(given))
			continue
		}
		running.Add(1)
		go func() {
			defer running.Done()
			reply(obey(given))
		}()
	}
	running.Wait()
}

func write(given request, found answer) {
	found["id"] = given.ID
	text, err := json.Marshal(found)
	if err != nil {
		panic(err)
	}
	os.Stdout.Write(append(text, '\n'))
}

func create(given request) answer {
	clock := &atomic.Int64{}
	o := given.Options
	created := licensing.Options{
		BaseURL: o.BaseURL, AppID: o.AppID, LicenceKey: o.LicenceKey, Fingerprint: o.Fingerprint, Host: o.Host,
		ProductVersion: o.ProductVersion, RootKeys: o.RootKey, Timeout: time.Duration(o.TimeoutMs) * time.Millisecond,
		NoBackground: o.Background != nil && !*o.Background,
		Clock: func() time.Time {
			if set := clock.Load(); set != 0 {
				return time.UnixMilli(set)
			}
			return time.Now()
		},
	}
	if len(o.RootKey) == 1 {
		created.RootKey, created.RootKeys = o.RootKey[0], nil
	}
	if o.StoreFile != "" {
		created.Store = licensing.FileStore(o.StoreFile)
	}
	client, err := licensing.New(created)
	if err != nil {
		return answer{"threw": err.Error()}
	}
	mu.Lock()
	defer mu.Unlock()
	clients[nameOf(given)] = driven{client, clock}
	return answer{"ok": true}
}

func nameOf(given request) string {
	if given.Client == "" {
		return "a"
	}
	return given.Client
}

func obey(given request) (found answer) {
	defer func() {
		if cause := recover(); cause != nil {
			found = answer{"threw": fmt.Sprint(cause)}
		}
	}()
	switch given.Call {
	case "new":
		return create(given)
	case "machine_fingerprint":
		return fingerprint(given.Argument)
	case "verify_webhook":
		return verify(given.Argument)
	}
	mu.Lock()
	client, isKnown := clients[nameOf(given)]
	mu.Unlock()
	if !isKnown {
		return answer{"threw": "there is no client " + nameOf(given)}
	}
	var argument string
	_ = json.Unmarshal(given.Argument, &argument)
	ctx := context.Background()
	var state licensing.State
	switch given.Call {
	case "clock":
		client.clock.Store(0)
		if argument != "" {
			client.clock.Store(timeIn(argument).UnixMilli())
		}
		return answer{"ok": true}
	case "close":
		client.Close()
		return answer{"ok": true}
	case "create_offline_request":
		return answer{"text": client.CreateOfflineRequest()}
	case "has_feature":
		return answer{"value": client.HasFeature(argument)}
	case "limit":
		return answer{"value": client.Limit(argument)}
	case "covers":
		return answer{"value": client.Covers(timeIn(argument))}
	case "state":
		state = client.State()
	case "ready":
		state = client.Ready(ctx)
	case "activate":
		state = client.Activate(ctx)
	case "activate_offline":
		state = client.ActivateOffline(ctx, argument)
	case "start_trial":
		state = client.StartTrial(ctx, argument)
	case "refresh":
		state = client.Refresh(ctx)
	case "check":
		state = client.Check(ctx)
	case "migrate":
		state = client.Migrate(ctx, argument)
	case "release":
		state = client.Release(ctx)
	case "deactivate":
		state = client.Deactivate(ctx)
	case "call_home":
		state = client.CallHome(ctx)
	default:
		return answer{"threw": "unknown call " + given.Call}
	}
	return answer{"state": inNotation(state)}
}

// inNotation is a state in the notation of the vectors.
func inNotation(state licensing.State) answer {
	var problem any
	if state.Problem != nil {
		problem = state.Problem.Code
	}
	return answer{
		"status": state.Status, "usable": state.Usable, "reason": orNull(string(state.Reason)),
		"licence_id": orNull(state.LicenceID), "activation_id": orNull(state.ActivationID),
		"plan_id": orNull(state.PlanID), "licence_status": orNull(state.LicenceStatus), "seats": state.Seats,
		"updates_until": timeOrNull(state.UpdatesUntil), "expires_at": timeOrNull(state.ExpiresAt),
		"refresh_after": timeOrNull(state.RefreshAfter), "offline": state.Offline, "revocations": state.Revocations,
		"clock_turned_back": state.ClockTurnedBack, "problem": problem,
	}
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func timeOrNull(at time.Time) any {
	if at.IsZero() {
		return nil
	}
	return at.Format("2006-01-02T15:04:05.000Z")
}

// timeIn is the time in a text; the zero time if there is none.
func timeIn(text string) time.Time {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at
		}
	}
	return time.Time{}
}

func fingerprint(argument json.RawMessage) answer {
	var given struct {
		AppID string `json:"app_id"`
		File  string
	}
	_ = json.Unmarshal(argument, &given)
	text, err := licensing.MachineFingerprint(licensing.FingerprintOptions{AppID: given.AppID, File: given.File})
	if err != nil {
		return answer{"threw": err.Error()}
	}
	return answer{"text": text}
}

func verify(argument json.RawMessage) answer {
	var given struct {
		Body      string `json:"body_base64"`
		Signature string
		Headers   map[string]string
		Secrets   someText
		Tolerance float64 `json:"tolerance_seconds"`
		Now       string
	}
	_ = json.Unmarshal(argument, &given)
	body, err := base64.StdEncoding.DecodeString(given.Body)
	if err != nil {
		return answer{"threw": err.Error()}
	}
	header := http.Header{}
	for name, value := range given.Headers {
		header[name] = []string{value}
	}
	if given.Headers == nil && given.Signature != "" {
		header.Set("Webhook-Signature", given.Signature)
	}
	verifier := licensing.WebhookVerifier{
		Secrets: given.Secrets, Tolerance: time.Duration(given.Tolerance * float64(time.Second)),
	}
	if given.Now != "" {
		verifier.Clock = func() time.Time { return timeIn(given.Now) }
	}
	_, err = verifier.Verify(body, header)
	var refusal *licensing.WebhookError
	switch {
	case errors.As(err, &refusal):
		return answer{"reason": refusal.Reason}
	case err != nil:
		return answer{"threw": err.Error()}
	}
	return answer{"event": json.RawMessage(body)}
}
