package licensing

import (
	"bytes"
	"cmp"
	"context"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"time"
)

// session keeps the two values of an installation, and lets one operation run at a time, with a timeout, between a read of the
// store and a save.
type session struct {
	identity             identity
	host, productVersion string
	ask                  func(context.Context, call) answer
	clock                func() int64
	newNonce             func() string
	store                Store
	timeout              time.Duration
	startTimer           func(time.Duration, func()) timer
	// hasBackground: the session checks and renews by itself.
	hasBackground bool
	// jitter is constant for a client.
	jitter float64

	// closing ends when the session is closed, and work has its goroutines then.
	closing context.Context
	cancel  context.CancelFunc
	work    sync.WaitGroup

	// mu guards what follows, and is held only for moments.
	mu       sync.Mutex
	isClosed bool
	held     held
	attempts attempts
	// storeText is the text of the store that was last read or written.
	storeText []byte
	// foreignRevision is the revision of that text, if it belongs to another licence key or machine.
	foreignRevision int64
	// storeFailed: only saves try the store again.
	storeFailed bool
	running     map[string]*operation
	last        *operation
	// wanted asks for a licence as the product did last; nil if it did not, or has freed its activation since.
	wanted func(context.Context) State
	timer  timer
	// isBusy: the background work is running.
	isBusy bool

	listeners    []*listener
	notified     *State
	news         []news
	isDelivering bool
}

type timer interface{ Stop() bool }

// operation is a call that is waiting or running. Its callers share it.
type operation struct {
	context context.Context
	cancel  context.CancelFunc
	callers int
	done    chan struct{}
	state   State
}

// listener is called after each change of the state.
type listener struct{ call func(State) }

// news is a state that listeners have not heard of yet.
type news struct {
	state State
	to    []*listener
}

// start makes a session of its parts.
func (s *session) start() {
	s.closing, s.cancel = context.WithCancel(context.Background())
	s.held = emptyHeld(s.identity.licenceKey, s.clock())
	s.attempts.absence = ReasonNotActivated
	s.foreignRevision = noRevision
	s.running = map[string]*operation{}
	s.jitter = rand.Float64()
}

// Values

func (s *session) current() held {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// time reads the clock, and returns the trusted time.
func (s *session) time() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.observe()
}

func (s *session) state() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observe()
	return stateOf(s.held, s.attempts)
}

func (s *session) apply(answer verified) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observe()
	s.held = answer.applyTo(s.held)
}

func (s *session) record(change func(*attempts)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.attempts)
}

// nonceForFile is the nonce of a request for an offline file; empty if the file need not set the time back.
func (s *session) nonceForFile() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ensureNonce()
}

// The functions up to the next heading need the lock.

func (s *session) observe() int64 {
	s.held = s.held.observed(s.clock())
	return s.held.time.time
}

func (s *session) ensureNonce() string {
	s.observe()
	if s.held.needsNonce() {
		s.held.licence.nonce = s.newNonce()
	}
	return s.held.licence.nonce
}

func (s *session) due() dueTimes {
	s.observe()
	return dueTimesOf(s.held, s.attempts, s.wanted != nil, s.jitter)
}

// absorb adds the text of the store.
func (s *session) absorb(text []byte) {
	if s.attempts.isStoreRead && bytes.Equal(text, s.storeText) && (text == nil) == (s.storeText == nil) {
		return
	}
	s.observe()
	stored := readRecord(text, s.held, s.identity)
	before := s.held.token()
	s.held = absorb(s.held, stored.held)
	s.foreignRevision = stored.foreignRevision
	after := s.held.token()
	if !s.attempts.isStoreRead {
		// At the first read, the record says why there is no token. A record of another licence key is replaced.
		s.attempts.isStoreRead = true
		s.attempts.absence = cmp.Or(stored.absence, s.attempts.absence)
		if stored.foreignRevision != noRevision {
			s.held.licence.revision = stored.foreignRevision + 1
		}
	} else if (before == nil) != (after == nil) || (before != nil && before.jws != after.jws) {
		s.attempts = s.attempts.withNewToken()
		if after == nil {
			s.attempts.absence = ReasonDeactivated
		}
	}
	s.storeText = bytes.Clone(text)
}

// begin lets an operation wait for its turn; nil if the session is closed. If the same operation is waiting or running already, it
// gets another caller.
func (s *session) begin(name string, work func(context.Context)) *operation {
	if s.isClosed {
		return nil
	}
	of := s.running[name]
	if of == nil {
		of = &operation{done: make(chan struct{})}
		of.context, of.cancel = context.WithCancel(s.closing)
		previous := s.last
		s.running[name], s.last = of, of
		s.work.Add(1)
		go func() {
			defer s.work.Done()
			if previous != nil {
				<-previous.done
			}
			s.perform(of, work)
			s.end(name, of)
		}()
	}
	of.callers++
	return of
}

// ensureStarted lets the session read the store if nothing did so yet.
func (s *session) ensureStarted() {
	if len(s.running) == 0 && !s.attempts.isStoreRead {
		s.begin("ready", func(context.Context) {})
	}
}

// wake renews a token that is due at once: after the machine has slept, the timer may end up to a minute later.
func (s *session) wake() {
	if due := s.due(); due.token <= due.now && s.takeBackground() {
		go s.workInBackground()
	}
}

// takeBackground lets the caller do the background work, unless it is running.
func (s *session) takeBackground() bool {
	if !s.hasBackground || s.isClosed || s.isBusy {
		return false
	}
	s.isBusy = true
	s.work.Add(1)
	s.stopTimer()
	return true
}

func (s *session) stopTimer() {
	if s.timer != nil {
		s.timer.Stop()
	}
}

// Operations

// run runs an operation, and returns the state after it, or the state at the end of ctx. The operation is cancelled when no caller
// waits for it any more.
func (s *session) run(ctx context.Context, name string, work func(context.Context)) State {
	s.mu.Lock()
	var of *operation
	if ctx.Err() == nil {
		of = s.begin(name, work)
	}
	s.mu.Unlock()
	if of == nil {
		return s.state()
	}
	select {
	case <-of.done:
		return of.state
	case <-ctx.Done():
		s.leave(name, of)
		return s.state()
	}
}

func (s *session) leave(name string, of *operation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of.callers--; of.callers > 0 {
		return
	}
	of.cancel()
	// A later caller starts the operation again.
	if s.running[name] == of {
		delete(s.running, name)
	}
}

func (s *session) end(name string, of *operation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[name] == of {
		delete(s.running, name)
	}
	s.observe()
	of.state = stateOf(s.held, s.attempts)
	of.cancel()
	close(of.done)
}

func (s *session) perform(of *operation, work func(context.Context)) {
	if of.context.Err() != nil {
		return
	}
	s.read()
	if of.context.Err() == nil {
		ctx, cancel := context.WithTimeout(of.context, s.timeout)
		err := protect(func() { work(ctx) })
		cancel()
		if err != nil {
			s.recordProblem(OperationInternal, &trouble{ReasonUnexpectedError, err.Error(), noWait})
		}
		s.save()
	}
	s.notify()
	s.schedule()
}

// read reads the store before each operation, because other processes may have written.
func (s *session) read() {
	s.mu.Lock()
	isFailed := s.storeFailed
	s.mu.Unlock()
	if isFailed {
		return
	}
	ctx, cancel := context.WithTimeout(s.closing, s.timeout)
	defer cancel()
	text, err := await(ctx, s.store.Read)
	if s.closing.Err() != nil {
		return
	}
	if err != nil {
		text = nil
		s.recordStore(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.absorb(text)
}

func (s *session) save() {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	change := func(text []byte) ([]byte, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		// A store that was too slow must not change anything later.
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		s.absorb(text)
		// The store now belongs to another product or machine, which was activated later.
		if text != nil && s.foreignRevision > s.held.licence.revision {
			return text, nil
		}
		s.ensureNonce()
		s.foreignRevision = noRevision
		s.storeText = writeRecord(s.held, s.identity)
		return bytes.Clone(s.storeText), nil
	}
	_, err := await(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, update(ctx, s.store, change) })
	s.recordStore(err)
}

func (s *session) recordStore(err error) {
	s.mu.Lock()
	s.storeFailed = err != nil
	s.mu.Unlock()
	if err != nil {
		s.recordProblem(OperationStore, &trouble{ReasonStoreFailed, err.Error(), noWait})
	} else {
		s.recordProblem(OperationStore, nil)
	}
}

// wants records how the product asked for a licence last.
func (s *session) wants(licence func(context.Context) State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = licence
}

// claims are those of the usable token; nil if nothing is granted. The first call starts the client, and is answered at once, from
// the token that is known at that moment.
func (s *session) claims() *tokenClaims {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ensureStarted()
	s.observe()
	if isUsable(s.held, s.attempts) {
		return s.held.token().claims
	}
	s.wake()
	return nil
}

// covers says whether the licence includes updates to a release.
func (s *session) covers(releasedAt time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ensureStarted()
	token := s.held.token()
	return token == nil || token.claims.updatesUntil == noTime || !timeOf(token.claims.updatesUntil).Before(releasedAt)
}

// close ends the background work and the operations that are running, and waits for that.
func (s *session) close() {
	s.mu.Lock()
	s.isClosed = true
	s.listeners, s.news = nil, nil
	s.stopTimer()
	s.mu.Unlock()
	s.cancel()
	s.work.Wait()
}

// Background work

// schedule sets the timer for the next work that is due.
func (s *session) schedule() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopTimer()
	if !s.hasBackground || s.isClosed {
		return
	}
	if delay, isDue := s.due().sleep(); isDue {
		s.timer = s.startTimer(time.Duration(delay)*time.Millisecond, s.onTimer)
	}
}

func (s *session) onTimer() {
	s.mu.Lock()
	isOurs := s.takeBackground()
	s.mu.Unlock()
	if isOurs {
		s.workInBackground()
	}
}

func (s *session) workInBackground() {
	defer s.work.Done()
	s.mu.Lock()
	before := s.due()
	s.mu.Unlock()
	if before.list <= before.now {
		s.run(s.closing, "check", s.check)
	}
	// Read again: meanwhile the product may have released or freed its place.
	s.mu.Lock()
	after, token, wanted := s.due(), s.held.token(), s.wanted
	s.mu.Unlock()
	switch {
	case after.token > after.now:
	case token != nil:
		s.run(s.closing, "refresh", s.refresh)
	case wanted != nil:
		wanted(s.closing)
	}
	s.notify()
	s.mu.Lock()
	s.isBusy = false
	s.mu.Unlock()
	s.schedule()
}

// Listeners

func (s *session) listen(call func(State)) (end func()) {
	added := &listener{call}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isClosed {
		s.listeners = append(s.listeners, added)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.listeners = slices.DeleteFunc(slices.Clone(s.listeners), func(each *listener) bool { return each == added })
	}
}

// notify reports the state to the listeners if it has changed. They are called by a goroutine of their own, so they may call the
// client.
func (s *session) notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observe()
	state := stateOf(s.held, s.attempts)
	compared := state
	if state.Problem != nil {
		compared.Problem = &Problem{Code: state.Problem.Code}
	}
	if s.isClosed || (s.notified != nil && reflect.DeepEqual(compared, *s.notified)) {
		return
	}
	s.notified = &compared
	if len(s.listeners) == 0 {
		return
	}
	s.news = append(s.news, news{state, s.listeners})
	if !s.isDelivering {
		s.isDelivering = true
		go s.deliver()
	}
}

func (s *session) deliver() {
	for {
		s.mu.Lock()
		if len(s.news) == 0 {
			s.isDelivering = false
			s.mu.Unlock()
			return
		}
		next := s.news[0]
		s.news = s.news[1:]
		s.mu.Unlock()
		for _, each := range next.to {
			s.mu.Lock()
			isListening := slices.Contains(s.listeners, each)
			s.mu.Unlock()
			if isListening {
				// An error of a listener does not affect the licence.
				_ = protect(func() { each.call(next.state) })
			}
		}
	}
}
