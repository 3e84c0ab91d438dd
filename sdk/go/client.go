// Package licensing is the licence of an installed product: it activates the product, verifies what the licensing service signs,
// keeps that in a store, and answers questions about features and limits without the network. VerifyWebhook is for the backends of
// vendors.
package licensing

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Options describe an installation of a product.
type Options struct {
	// BaseURL is the address of the licensing service: https://licensing.example.com.
	BaseURL string
	// AppID is the application's id, app_….
	AppID string
	// RootKey is the application's root key, lrk_…. Compile it into the product; do not read it from a file. A signing key is
	// trusted only if a root key has signed it. [Unpinned] trusts every key, also one that somebody wrote into the store.
	RootKey string
	// RootKeys are further root keys, while one is being replaced.
	RootKeys []string
	// LicenceKey is the customer's licence key. It is not needed if the store has one, or if a legacy key is migrated.
	LicenceKey string
	// Fingerprint identifies this machine: 1 to 128 characters, the same at every start. See [MachineFingerprint].
	Fingerprint string
	// Host is the name of the machine, or the domain that the product serves: any text of 1 to 253 characters without control
	// characters. A licence can be restricted to domains.
	Host string
	// ProductVersion is the product's version, 1 to 128 characters.
	ProductVersion string
	// Store keeps the licence over restarts. Default: memory, which keeps nothing. See [FileStore].
	Store Store
	// Transport sends requests. Default: a copy of http.DefaultTransport, which uses the proxy of the environment.
	Transport http.RoundTripper
	// Clock is the local clock. Default: time.Now.
	Clock func() time.Time
	// Nonce creates the nonce of a request, which its token repeats: for tests. Default: random.
	Nonce func() string
	// Timeout is that of each call. Default: 5 seconds.
	Timeout time.Duration
	// NoBackground: the client does not check and refresh by itself between calls.
	NoBackground bool
}

// Client is the licence of one installation of a product. Several goroutines can use it.
//
// No call fails, panics, or blocks for much longer than Options.Timeout: each returns a [State]. HasFeature and Limit return at once,
// from the verified token. If the context of a call ends, the call returns the state of that moment; its work is cancelled unless
// another caller waits for it. The first call reads the store and, unless NoBackground is set, starts the background work.
type Client struct {
	session *session
	// idle closes the connections that are not in use.
	idle func()
}

// New creates a client, without reading the store. It fails only if RootKey is missing or malformed.
//
//	client, err := licensing.New(licensing.Options{
//		BaseURL:        "https://licensing.example.com",
//		AppID:          "app_01k…",
//		RootKey:        "lrk_…",
//		LicenceKey:     "7ZK2M-…",
//		Fingerprint:    fingerprint,
//		Host:           "build-7.example.com",
//		ProductVersion: "4.2.0",
//		Store:          licensing.FileStore("/var/lib/acme/licence.json"),
//	})
func New(options Options) (*Client, error) {
	roots, err := readRootKeys(options.RootKey, options.RootKeys)
	if err != nil {
		return nil, err
	}
	transport, idle := options.Transport, func() {}
	if transport == nil {
		transport, idle = newTransport()
	}
	clock := safeClock(options.Clock)
	s := &session{
		identity:       identity{options.AppID, options.Fingerprint, options.LicenceKey, roots},
		host:           options.Host,
		productVersion: options.ProductVersion,
		ask:            (&service{strings.TrimRight(options.BaseURL, "/"), transport, clock}).ask,
		clock:          clock,
		newNonce:       options.Nonce,
		store:          options.Store,
		timeout:        options.Timeout,
		hasBackground:  !options.NoBackground,
		startTimer:     func(delay time.Duration, work func()) timer { return time.AfterFunc(delay, work) },
	}
	if s.newNonce == nil {
		s.newNonce = randomNonce
	}
	if s.store == nil {
		s.store = MemoryStore()
	}
	if s.timeout <= 0 {
		s.timeout = 5 * time.Second
	}
	s.start()
	return &Client{s, idle}, nil
}

// State is the current state. Nothing is granted before the store is read: call Ready or Activate first.
func (c *Client) State() State {
	return c.session.state()
}

// LicenceKey is the licence key in use: the given one, or the one from the store or a migration; empty if there is none.
func (c *Client) LicenceKey() string {
	return c.session.current().licence.key
}

// Ready reads the store and verifies its content, without the network.
func (c *Client) Ready(ctx context.Context) State {
	return c.session.run(ctx, "ready", func(context.Context) {})
}

// Activate activates the product: call it at every start. If the store has a valid token, it returns without the network; otherwise
// it activates the licence key on this machine. If the service cannot be reached, the background retries.
//
//	state := client.Activate(ctx)
//	if !state.Usable {
//		showLicencePage(state.Reason)
//	}
func (c *Client) Activate(ctx context.Context) State {
	s := c.session
	return s.run(ctx, "activate", func(ctx context.Context) {
		s.wants(c.Activate)
		s.activate(ctx)
	})
}

// StartTrial starts a trial, or continues it: call it instead of Activate at each start of a product that has no licence key.
// planCode is the code of a plan with trial_days. Each machine has one trial of a product, permanently: after it the reason is
// expired or trial_used. The store keeps the licence key of the trial. If the client has a licence key, that key is activated.
func (c *Client) StartTrial(ctx context.Context, planCode string) State {
	s := c.session
	return s.run(ctx, "start_trial "+planCode, func(ctx context.Context) {
		s.wants(func(ctx context.Context) State { return c.StartTrial(ctx, planCode) })
		s.startTrial(ctx, planCode)
	})
}

// CreateOfflineRequest is a request for a licence file, for a machine without a network: JSON text, from which the vendor makes the
// file. It contains the licence key if it is known. If the clock was ahead and the licence has therefore ended, the request has a
// nonce, and time counts from the current clock once the file is read.
func (c *Client) CreateOfflineRequest() string {
	s := c.session
	nonce := s.nonceForFile()
	if nonce != "" {
		// The file may be read after a restart, so the store must have the nonce.
		s.mu.Lock()
		s.begin("ready", func(context.Context) {})
		s.mu.Unlock()
	}
	return encodeJSON(struct {
		LicenceKey     string `json:"licence_key,omitempty"`
		Fingerprint    string `json:"fingerprint"`
		Host           string `json:"host"`
		ProductVersion string `json:"product_version"`
		Nonce          string `json:"nonce,omitempty"`
	}{c.LicenceKey(), s.identity.fingerprint, s.host, s.productVersion, nonce})
}

// ActivateOffline reads the text of a licence file from the vendor, without the network, and keeps it in the store. A file that is
// refused changes nothing, and the state says why. It needs a root key.
func (c *Client) ActivateOffline(ctx context.Context, text string) State {
	return c.session.run(ctx, "activate_offline "+text, func(context.Context) { c.session.activateOffline(text) })
}

// Refresh renews the token now. The background does this at half of the token's life. The valid token of a licence file is not
// renewed, because a token of the service is shorter. After a refusal a valid token counts until its end.
func (c *Client) Refresh(ctx context.Context) State {
	return c.session.run(ctx, "refresh", c.session.refresh)
}

// Check checks the revocation list now. The background does this within the check interval of the token.
func (c *Client) Check(ctx context.Context) State {
	return c.session.run(ctx, "check", c.session.check)
}

// Migrate exchanges a key of the vendor's former system for a licence key, stores that, and activates it. It can be called at every
// start: a key is exchanged once.
func (c *Client) Migrate(ctx context.Context, legacyKey string) State {
	s := c.session
	return s.run(ctx, "migrate "+legacyKey, func(ctx context.Context) {
		s.wants(func(ctx context.Context) State { return c.Migrate(ctx, legacyKey) })
		s.migrate(ctx, legacyKey)
	})
}

// Deactivate frees the activation of this machine, so that the licence can be used on another one. If the service cannot be reached,
// nothing changes and State.Problem says so: try again.
func (c *Client) Deactivate(ctx context.Context) State {
	return c.session.run(ctx, "deactivate", func(ctx context.Context) { c.session.free(ctx, c.session.deactivate) })
}

// Release ends the lease of a floating licence, so that another installation can use it at once: call it when the product ends. The
// activation stays, and Activate takes a lease again. Without it the lease ends by itself. If several processes share the store, they
// share the lease: call it when the last one ends. On any other licence it changes nothing.
func (c *Client) Release(ctx context.Context) State {
	return c.session.run(ctx, "release", func(ctx context.Context) { c.session.free(ctx, c.session.release) })
}

// CallHome reports to the vendor that this installation is in use, with its host and version. A refresh reports it too.
func (c *Client) CallHome(ctx context.Context) State {
	return c.session.run(ctx, "call_home", c.session.callHome)
}

// HasFeature says whether a feature is granted now. It returns at once, and is false for a key that does not exist. If the token has
// ended while the machine slept, the background renews it at once: OnChange reports that.
func (c *Client) HasFeature(key string) bool {
	claims := c.session.claims()
	return claims != nil && claims.entitlements[key] == "true"
}

var integerPattern = regexp.MustCompile(`^(0|-?[1-9][0-9]{0,14})$`)

// Limit is the current value of a limit; 0 if nothing is granted or the key does not exist.
func (c *Client) Limit(key string) int64 {
	claims := c.session.claims()
	if claims == nil || !integerPattern.MatchString(claims.entitlements[key]) {
		return 0
	}
	limit, _ := strconv.ParseInt(claims.entitlements[key], 10, 64)
	return limit
}

// Covers says whether the licence includes updates to a release: false if its updates ended before, else true. It says nothing about
// whether the product is licensed at all: see State. A time that names no zone is in UTC, as [time.Parse] reads it.
func (c *Client) Covers(releasedAt time.Time) bool {
	return c.session.covers(releasedAt)
}

// OnChange calls listener after each change of status, reason, token or revocation, one state after the other, in a goroutine of the
// client. The function that it returns ends that.
func (c *Client) OnChange(listener func(State)) (end func()) {
	return c.session.listen(listener)
}

// Close ends the background work and the calls that are running, and waits until they have saved. HasFeature and Limit still use the
// current token; other calls return the state at once.
func (c *Client) Close() {
	c.session.close()
	c.idle()
}

func newTransport() (transport http.RoundTripper, idle func()) {
	shared, isTransport := http.DefaultTransport.(*http.Transport)
	if !isTransport {
		return http.DefaultTransport, func() {}
	}
	own := shared.Clone()
	return own, own.CloseIdleConnections
}

func randomNonce() string {
	var bytes [16]byte
	_, _ = rand.Read(bytes[:])
	return hex.EncodeToString(bytes[:])
}

// safeClock: a clock that panics or returns no time must not stop the product.
func safeClock(clock func() time.Time) func() int64 {
	return func() int64 {
		now := int64(math.MaxInt64)
		if clock != nil {
			_ = protect(func() { now = clock().UnixMilli() })
		}
		if now < -maxTime || now > maxTime {
			return time.Now().UnixMilli()
		}
		return now
	}
}
