package licensing

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// world has a simulated clock and timers, and a service that answers with documents of the vectors.
type world struct {
	mu       sync.Mutex
	now      time.Time
	due      time.Time
	work     func()
	requests []string
	// answer is that to a request such as "GET /revocations"; nil if the service is unreachable.
	answer func(request string) *http.Response
	client *Client
}

var startOfWorld = mustParse("2026-11-21T10:00:00.000Z")

func newWorld(t *testing.T, jitter float64, answer func(string) *http.Response, change ...func(*Options)) *world {
	w := &world{now: startOfWorld, answer: answer}
	options := optionsOf(shared().Client)
	options.NoBackground, options.Nonce, options.Timeout = false, nil, 10*time.Second
	options.Transport = roundTripper(w.ask)
	options.Clock = func() time.Time {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.now
	}
	for _, each := range change {
		each(&options)
	}
	w.client = newClient(t, options)
	w.client.session.jitter = jitter
	w.client.session.startTimer = func(delay time.Duration, work func()) timer {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.due, w.work = w.now.Add(delay), work
		return stopper(func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.work = nil
		})
	}
	return w
}

type stopper func()

func (s stopper) Stop() bool { s(); return true }

func (w *world) ask(request *http.Request) (*http.Response, error) {
	path := strings.Replace(request.URL.Path, "/v1/apps/"+w.client.session.identity.appID, "", 1)
	w.mu.Lock()
	w.requests = append(w.requests, request.Method+" "+path)
	response := w.answer(request.Method + " " + path)
	w.mu.Unlock()
	if response == nil {
		return nil, errors.New("unreachable")
	}
	return response, nil
}

func (w *world) count(part string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(strings.Join(w.requests, "\n"), part)
}

func (w *world) hasTimer() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.work != nil
}

// pass lets time pass, and runs the work that becomes due.
func (w *world) pass(period time.Duration) {
	w.mu.Lock()
	end := w.now.Add(period)
	for w.work != nil && !w.due.After(end) {
		work := w.work
		w.now, w.work = w.due, nil
		w.mu.Unlock()
		work()
		w.mu.Lock()
	}
	w.now = end
	w.mu.Unlock()
}

func grantOf(document string) *http.Response {
	return newResponse(200, encodeJSON(object{
		"activation_id": "act_01kahz5k00e000000000000003", "licence_id": "lic_01kahz5k00e000000000000002",
		"token": shared().Documents[document].JWS,
	}), nil)
}

// activated is a service that grants a token, another one from 13 hours after the start, and has a list that names other licences.
func activated(request string) *http.Response {
	switch {
	case strings.HasSuffix(request, "/refresh"):
		return grantOf("token_after_13h")
	case strings.HasPrefix(request, "POST"):
		return grantOf("token")
	case strings.HasSuffix(request, "/jwks.json"):
		return newResponse(200, encodeJSON(object{"keys": []any{}, "signed": []string{shared().Documents["keys"].JWS}}), nil)
	}
	return newResponse(200, encodeJSON(object{"signature": shared().Documents["list_10"].JWS}), nil)
}

func TestTheBackgroundDoesNotExistBeforeTheFirstCall(t *testing.T) {
	w := newWorld(t, 0, activated)
	if w.hasTimer() || len(w.requests) > 0 {
		t.Fatal(w.requests)
	}
}

func TestTheBackgroundIsStartedByAQuestion(t *testing.T) {
	store := &memoryStore{text: textOf(resolved(shared().Values["store"]))}
	w := newWorld(t, 0, activated, func(options *Options) { options.Store = store })
	if w.client.HasFeature("export_pdf") {
		t.Fatal("granted before the store was read")
	}
	eventually(t, "the store is read", w.hasTimer)
	w.pass(2 * time.Second)
	if !w.client.HasFeature("export_pdf") || w.count("GET /revocations") != 1 {
		t.Fatal(w.requests)
	}
}

func TestTheBackgroundChecksTheListWithinEveryInterval(t *testing.T) {
	for _, jitter := range []float64{0, 0.001_234_5, 0.5, 0.999} {
		w := newWorld(t, jitter, activated)
		w.client.Activate(background)
		w.pass(5 * time.Second)
		for interval := 1; interval <= 6; interval++ {
			if count := w.count("GET /revocations"); count < interval || count > 8 {
				t.Fatal(jitter, interval, count)
			}
			w.pass(15 * time.Minute)
		}
	}
}

func TestTheBackgroundRenewsTheTokenBetweenHalfAndSixTenthsOfItsLife(t *testing.T) {
	for jitter, at := range map[float64]float64{0: 12, 0.5: 13.2, 0.999: 14.4} {
		w := newWorld(t, jitter, activated)
		w.client.Activate(background)
		w.client.Check(background)
		// The list was signed after the start, so time counts from there.
		ahead := time.Duration(w.client.session.time()-startOfWorld.UnixMilli()) * time.Millisecond
		w.pass(time.Duration(at*float64(time.Hour)) - ahead - 2*time.Minute)
		if w.count("/refresh") != 0 {
			t.Fatal("too early", jitter, w.requests)
		}
		w.pass(4 * time.Minute)
		if w.count("/refresh") != 1 {
			t.Fatal("too late", jitter, w.requests)
		}
	}
}

func TestTheBackgroundSlowsDownIfTheServiceKeepsReturningTheSameToken(t *testing.T) {
	w := newWorld(t, 0, func(request string) *http.Response {
		if strings.HasSuffix(request, "/refresh") {
			return grantOf("token")
		}
		return activated(request)
	})
	w.client.Activate(background)
	w.pass(18 * time.Hour)
	if count := w.count("/refresh"); count <= 3 || count >= 25 {
		t.Fatal(count)
	}
}

func TestTheBackgroundRetriesTheActivationAtGrowingIntervals(t *testing.T) {
	var w *world
	isUp := false
	w = newWorld(t, 0, func(request string) *http.Response {
		if isUp {
			return activated(request)
		}
		return nil
	})
	heard := make(chan string, 100)
	w.client.OnChange(func(state State) { heard <- fmt.Sprint(state.Status, " ", state.Reason) })
	w.client.Activate(background)
	w.pass(31 * time.Second)
	if len(w.requests) != 2 {
		t.Fatal(w.requests)
	}
	w.pass(8 * time.Hour)
	if len(w.requests) <= 12 || len(w.requests) >= 30 {
		t.Fatal(len(w.requests))
	}
	isUp = true
	w.pass(61 * time.Minute)
	if first, second := <-heard, <-heard; first != "unlicensed unreachable" || second != "licensed " {
		t.Fatal(first, second)
	}
}

func TestTheBackgroundRetriesNoKeyThatWasRefused(t *testing.T) {
	w := newWorld(t, 0, func(string) *http.Response { return newResponse(404, `{"code":"not_found"}`, nil) })
	w.client.Activate(background)
	w.pass(4 * time.Hour)
	if len(w.requests) != 1 {
		t.Fatal(w.requests)
	}
}

func TestTheBackgroundHasNothingToDoWithoutAKeyOrOnceTheLicenceIsRevoked(t *testing.T) {
	without := newWorld(t, 0, activated, func(options *Options) { options.LicenceKey = "" })
	without.client.Activate(background)
	if without.hasTimer() || len(without.requests) > 0 {
		t.Fatal(without.requests)
	}
	w := newWorld(t, 0, func(request string) *http.Response {
		if strings.HasPrefix(request, "GET /revocations") {
			return newResponse(200, encodeJSON(object{"signature": shared().Documents["list_12_names_us"].JWS}), nil)
		}
		return activated(request)
	})
	w.client.Activate(background)
	w.pass(5 * time.Second)
	if state := w.client.State(); state.Reason != ReasonRevoked || w.hasTimer() {
		t.Fatal(state)
	}
}

func TestNoCallIsMadeBeforeRetryAfterHasPassed(t *testing.T) {
	w := newWorld(t, 0, func(string) *http.Response { return newResponse(503, "", map[string]string{"Retry-After": "600"}) })
	w.client.Activate(background)
	w.pass(599 * time.Second)
	if len(w.requests) != 1 {
		t.Fatal(w.requests)
	}
	w.pass(32 * time.Second)
	if len(w.requests) != 2 {
		t.Fatal(w.requests)
	}
}

func TestListenersHearWhenTheTokenEnds(t *testing.T) {
	w := newWorld(t, 0, func(request string) *http.Response {
		if strings.HasSuffix(request, "/refresh") {
			return nil
		}
		return activated(request)
	})
	w.client.Activate(background)
	heard := make(chan Status, 1000)
	w.client.OnChange(func(state State) { heard <- state.Status })
	w.pass(24*time.Hour + time.Second)
	if first, second := <-heard, <-heard; first != StatusLicensed && first != StatusGrace {
		t.Fatal(first, second)
	}
	for status := range heard {
		if status == StatusLapsed {
			break
		}
	}
}

func TestATokenIsRequestedAtOnceIfTheClockWasTurnedBack(t *testing.T) {
	w := newWorld(t, 0, activated)
	w.client.Activate(background)
	w.pass(5 * time.Second)
	w.mu.Lock()
	w.now, w.due = w.now.Add(-time.Hour), w.due.Add(-time.Hour)
	w.mu.Unlock()
	w.pass(2 * time.Minute)
	if w.count("/refresh") == 0 {
		t.Fatal(w.requests)
	}
}

func TestALeaseThatEndedWhileTheMachineSleptIsRenewedByAQuestionOnce(t *testing.T) {
	lease := "token_of_lease"
	w := newWorld(t, 0, func(request string) *http.Response {
		switch {
		case strings.HasPrefix(request, "GET /jwks"):
			return activated(request)
		case strings.HasPrefix(request, "POST") && lease != "":
			return grantOf(lease)
		}
		return nil
	})
	w.client.Activate(background)
	w.pass(5 * time.Second)
	w.mu.Lock()
	// The timers do not run while the machine sleeps.
	w.now, lease = startOfWorld.Add(20*time.Minute), ""
	w.mu.Unlock()
	before := w.count("POST")
	for range 5 {
		if w.client.HasFeature("export_pdf") || w.client.Limit("max_projects") != 0 {
			t.Fatal("a lease that has ended grants")
		}
	}
	eventually(t, "the renewal", func() bool { return w.count("POST") == before+1 && w.hasTimer() })
	w.mu.Lock()
	lease = "token_of_lease_after_a_pause"
	w.mu.Unlock()
	if w.client.HasFeature("export_pdf") || w.count("POST") != before+1 {
		t.Fatal("it was not renewed once")
	}
	w.pass(31 * time.Second)
	if !w.client.HasFeature("export_pdf") {
		t.Fatal(w.requests, w.client.State())
	}
}

func TestCloseEndsTheTimer(t *testing.T) {
	w := newWorld(t, 0, activated)
	w.client.Activate(context.Background())
	w.client.Close()
	before, hadTimer := len(w.requests), w.hasTimer()
	w.pass(time.Hour)
	if hadTimer || len(w.requests) != before {
		t.Fatal(w.requests)
	}
}
