package licensing

import (
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

var background = context.Background()

func newClient(t *testing.T, options Options) *Client {
	t.Helper()
	client, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// expect compares the status, the reason and the code of the problem: "grace suspended unreachable".
func expect(t *testing.T, state State, expected string) {
	t.Helper()
	words := []string{string(state.Status)}
	if state.Reason != "" {
		words = append(words, string(state.Reason))
	}
	if state.Problem != nil {
		words = append(words, "!"+string(state.Problem.Code))
	}
	if seen := strings.Join(words, " "); seen != expected {
		t.Fatalf("%q instead of %q", seen, expected)
	}
}

// eventually polls until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for begun := time.Now(); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > 10*time.Second {
			t.Fatal("not in time: " + what)
		}
	}
}

func TestAProductActivatesWorksOfflineAndFreesItsActivation(t *testing.T) {
	server := startServer(t)
	options := server.options()
	client := newClient(t, options)
	expect(t, client.Activate(background), "licensed")
	if client.LicenceKey() != options.LicenceKey || !client.HasFeature("export_pdf") || client.Limit("max_projects") != 25 {
		t.Fatal("the licence is not as issued")
	}
	server.answerWith(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	expect(t, client.Refresh(background), "licensed !unreachable")
	server.answerWith(nil)
	expect(t, client.Deactivate(background), "unlicensed deactivated")
	if client.HasFeature("export_pdf") || len(server.activations) != 0 {
		t.Fatal("the activation was not freed")
	}
}

func TestCallsThatAreMadeAtOnceShareOneRequest(t *testing.T) {
	server := startServer(t)
	client := newClient(t, server.options())
	client.Activate(background)
	release := make(chan struct{})
	server.answerWith(func(w http.ResponseWriter, _ *http.Request) {
		<-release
		w.WriteHeader(503)
	})
	var callers sync.WaitGroup
	for range 20 {
		callers.Add(1)
		go func() {
			defer callers.Done()
			client.Refresh(background)
		}()
	}
	eventually(t, "all callers wait", func() bool {
		client.session.mu.Lock()
		defer client.session.mu.Unlock()
		of := client.session.running["refresh"]
		return of != nil && of.callers == 20
	})
	close(release)
	callers.Wait()
	if count := server.count("/refresh"); count != 1 {
		t.Fatalf("%d requests", count)
	}
}

func TestOneOperationRunsAtATimeInTheOrderOfTheCalls(t *testing.T) {
	server := startServer(t)
	client := newClient(t, server.options())
	s := client.session
	var order []string
	var last *operation
	s.mu.Lock()
	for _, name := range strings.Split("abcdefghij", "") {
		last = s.begin(name, func(context.Context) { order = append(order, name) })
	}
	s.mu.Unlock()
	<-last.done
	if strings.Join(order, "") != "abcdefghij" {
		t.Fatal(order)
	}
}

func TestHostileAnswers(t *testing.T) {
	for name, answer := range map[string]struct {
		handler  http.HandlerFunc
		expected string
	}{
		"text that never ends": {func(w http.ResponseWriter, r *http.Request) {
			part := []byte(strings.Repeat("x", 1<<16))
			for r.Context().Err() == nil {
				if _, err := w.Write(part); err != nil {
					return
				}
			}
		}, "unexpected_answer"},
		"JSON of 3 MiB": {func(w http.ResponseWriter, _ *http.Request) {
			reply(w, 200, object{"token": strings.Repeat("x", 3<<20)})
		}, "unexpected_answer"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, "unexpected_answer"},
		"a page":       {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<!doctype html>") }, "unexpected_answer"},
		"deep nesting": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("[", 1<<20)) }, "unexpected_answer"},
		"nothing":      {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "timeout"},
		"a blank now and then": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, " ")
				w.(http.Flusher).Flush()
				time.Sleep(10 * time.Millisecond)
			}
		}, "timeout"},
		"half an answer": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"token":`)
		}, "unreachable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startServer(t)
			options := server.options()
			options.Store = MemoryStore()
			newClient(t, options).Activate(background)
			if options.Timeout = 20 * time.Second; answer.expected == "timeout" {
				options.Timeout = 200 * time.Millisecond
			}
			active := newClient(t, options)
			options.Store = nil
			fresh := newClient(t, options)
			server.answerWith(answer.handler)
			begun := time.Now()
			expect(t, fresh.Activate(background), "unlicensed "+answer.expected+" !"+answer.expected)
			expect(t, active.Refresh(background), "licensed !"+answer.expected)
			if time.Since(begun) > 10*time.Second {
				t.Fatal("the calls took too long")
			}
			if server.count("elsewhere") > 0 {
				t.Fatal("a redirect was followed")
			}
		})
	}
}

func TestAnAnswerIsReadAsUTF8WhateverCharacterSetItNames(t *testing.T) {
	server := startServer(t)
	server.answerWith(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-16")
		w.WriteHeader(403)
		_, _ = io.WriteString(w, "\uFEFF"+`{"code":"licence_refused","reason":"geschlossen – Ü","detail":"no"}`)
	})
	state := newClient(t, server.options()).Activate(background)
	expect(t, state, "refused geschlossen – Ü !geschlossen – Ü")
}

func TestARetryAfterWithADateCountsByTheClockOfTheServer(t *testing.T) {
	for _, until := range []string{"Sat, 01 Feb 2020 10:10:00 GMT", "Saturday, 01-Feb-20 10:10:00 GMT", "Sat Feb  1 10:10:00 2020"} {
		server := startServer(t)
		server.answerWith(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", "Sat, 01 Feb 2020 10:00:00 GMT")
			w.Header().Set("Retry-After", until)
			w.WriteHeader(503)
		})
		client := newClient(t, server.options())
		expect(t, client.Activate(background), "unlicensed unavailable !unavailable")
		server.answerWith(nil)
		expect(t, client.Activate(background), "unlicensed unavailable !unavailable")
		if len(server.seen()) != 1 {
			t.Fatal(server.seen())
		}
	}
}

func TestAContextEndsACallAndItsRequest(t *testing.T) {
	server := startServer(t)
	options := server.options()
	options.Timeout = time.Hour
	client := newClient(t, options)
	ended := make(chan struct{})
	server.answerWith(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		close(ended)
	})
	ctx, cancel := context.WithCancel(background)
	go func() {
		for server.count("activations") == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	begun := time.Now()
	if state := client.Activate(ctx); state.Usable || time.Since(begun) > 3*time.Second {
		t.Fatal(state, time.Since(begun))
	}
	<-ended
	server.answerWith(nil)
	expect(t, client.Activate(background), "licensed")
	if state := client.Refresh(ctx); !state.Usable || server.count("refresh") > 0 {
		t.Fatal("a call with a context that has ended sent a request")
	}
}

func TestACallGoesOnWhileAnotherCallerWaitsForIt(t *testing.T) {
	server := startServer(t)
	client := newClient(t, server.options())
	release := make(chan struct{})
	server.answerWith(func(w http.ResponseWriter, r *http.Request) {
		<-release
		server.answerWith(nil)
		server.serve(w, r)
	})
	patient := make(chan State)
	go func() { patient <- client.Activate(background) }()
	eventually(t, "the request", func() bool { return server.count("activations") == 1 })
	ctx, cancel := context.WithTimeout(background, 10*time.Millisecond)
	defer cancel()
	client.Activate(ctx)
	close(release)
	expect(t, <-patient, "licensed")
}

func TestNothingIsLeftAfterClose(t *testing.T) {
	server := startServer(t)
	before := runtime.NumGoroutine()
	for _, isSlow := range []bool{false, true} {
		options := server.options()
		options.NoBackground, options.Timeout = false, time.Minute
		client, _ := New(options)
		client.OnChange(func(State) {})
		client.Activate(background)
		calls := make(chan State)
		if isSlow {
			server.answerWith(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			go func() { calls <- client.Refresh(background) }()
			eventually(t, "the request", func() bool { return server.count("refresh") == 1 })
		}
		client.Close()
		client.Close()
		if isSlow && !(<-calls).Usable {
			t.Fatal("the token does not count after Close")
		}
		sent := len(server.seen())
		if state := client.Refresh(background); !state.Usable || !client.HasFeature("export_pdf") || len(server.seen()) != sent {
			t.Fatal("a call after Close did something")
		}
		client.Ready(background)
	}
	server.CloseClientConnections()
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
}

func TestListenersHearOfEachChangeOnceInOrderWhateverTheyDo(t *testing.T) {
	server := startServer(t)
	client := newClient(t, server.options())
	heard := make(chan Status, 10)
	client.OnChange(func(State) { panic("a listener that panics") })
	client.OnChange(func(State) { client.Ready(background) })
	end := client.OnChange(func(state State) { heard <- state.Status })
	client.Activate(background)
	client.Activate(background)
	server.mu.Lock()
	server.status = "retired"
	server.mu.Unlock()
	client.Refresh(background)
	if first, second := <-heard, <-heard; first != StatusLicensed || second != StatusGrace {
		t.Fatal(first, second)
	}
	end()
	client.Deactivate(background)
	closed := make(chan struct{})
	client.OnChange(func(State) {
		client.Close()
		close(closed)
	})
	client.Activate(background)
	<-closed
	if len(heard) != 0 {
		t.Fatal(<-heard)
	}
}

func TestWhatPanicsInTheProductDoesNotStopIt(t *testing.T) {
	server := startServer(t)
	options := server.options()
	options.Clock = func() time.Time { panic("no clock") }
	expect(t, newClient(t, options).Activate(background), "licensed")
	options.Store = badStore{MemoryStore(), func() error { panic("no disk") }, func() error { return nil }}
	expect(t, newClient(t, options).Activate(background), "licensed !store_failed")
	options.Store = nil
	options.Nonce = func() string { panic("no nonce") }
	expect(t, newClient(t, options).Activate(background), "unlicensed not_activated !unexpected_error")
	options.Nonce, options.Transport = nil, roundTripper(func(*http.Request) (*http.Response, error) { panic("no network") })
	expect(t, newClient(t, options).Activate(background), "unlicensed unreachable !unreachable")
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

func TestInvalidOptionsDoNotDelayTheProduct(t *testing.T) {
	client := newClient(t, Options{RootKey: Unpinned, LicenceKey: "X"})
	expect(t, client.Activate(background), "unlicensed unreachable !unreachable")
	if client.HasFeature("export_pdf") {
		t.Fatal("a feature is granted")
	}
}

func TestATransportThatIgnoresItsContextDoesNotDelayTheCall(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	client := newClient(t, Options{
		RootKey: Unpinned, LicenceKey: "X", Timeout: 50 * time.Millisecond,
		Transport: roundTripper(func(*http.Request) (*http.Response, error) {
			<-release
			return nil, errors.New("too late")
		}),
	})
	expect(t, client.Activate(background), "unlicensed timeout !timeout")
}

// slowStore answers a save only when it is released.
type slowStore struct {
	*memoryStore
	release chan struct{}
	saved   chan error
}

func (s slowStore) Update(_ context.Context, change func([]byte) ([]byte, error)) error {
	<-s.release
	_, err := change(nil)
	s.saved <- err
	return err
}

func TestASaveThatComesTooLateChangesNothing(t *testing.T) {
	server := startServer(t)
	options := server.options()
	store := slowStore{&memoryStore{}, make(chan struct{}), make(chan error, 10)}
	options.Store, options.Timeout = store, 300*time.Millisecond
	client := newClient(t, options)
	expect(t, client.Activate(background), "licensed !store_failed")
	before := client.session.current()
	close(store.release)
	if err := <-store.saved; !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	after := client.session.current()
	if before.time = after.time; !reflect.DeepEqual(before, after) {
		t.Fatal("the client has changed")
	}
}

func TestManyGoroutinesUseOneClient(t *testing.T) {
	server := startServer(t)
	server.tokenLife = 4 * time.Second
	options := server.options()
	options.NoBackground = false
	client := newClient(t, options)
	client.OnChange(func(state State) { _ = state.Status })
	var all sync.WaitGroup
	for worker := range 16 {
		all.Add(1)
		go func() {
			defer all.Done()
			for round := range 20 {
				ctx, cancel := context.WithTimeout(background, time.Duration(round)*time.Millisecond)
				switch (worker + round) % 8 {
				case 0:
					client.Refresh(ctx)
				case 1:
					client.Check(ctx)
				case 2:
					client.Activate(background)
				case 3:
					client.Deactivate(ctx)
				case 4:
					client.CreateOfflineRequest()
				case 5:
					client.OnChange(func(State) {})()
				default:
					client.HasFeature("export_pdf")
					client.Limit("max_projects")
					client.Covers(time.Now())
					client.State()
				}
				cancel()
			}
		}()
	}
	all.Wait()
	if state := client.Activate(background); !state.Usable {
		t.Fatal(state)
	}
}
