package licensing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

const vectorsFolder = "../vectors"

// vector is an entry of a file of vectors, as vectors/README.md describes it.
type vector struct {
	Name       string
	Client     object
	Refused    bool
	Clock      string
	Store      any
	StoreFails string `json:"store_fails"`
	Steps      []step
}

type step struct {
	Clock          string
	Store          any
	Restart        object
	Call           string
	Argument       string
	Answers        []scriptedAnswer
	State          object
	OfflineRequest object `json:"offline_request"`
	Features       map[string]bool
	Limits         map[string]int64
	Covers         map[string]bool
}

type scriptedAnswer struct {
	Request        string
	WithHeaders    map[string]string `json:"with_headers"`
	WithJSON       object            `json:"with_json"`
	WithoutHeaders []string          `json:"without_headers"`
	Response       struct {
		Fails   string
		Status  int
		Headers map[string]string
		JSON    any
		Text    string
	}
}

type sharedVectors struct {
	Client    object
	Values    map[string]any
	Documents map[string]struct{ JWS string }
}

var shared = sync.OnceValue(func() sharedVectors {
	var found sharedVectors
	readJSON(filepath.Join(vectorsFolder, "shared.json"), &found)
	return found
})

func readJSON(path string, into any) {
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		panic(err)
	}
}

// vectorFiles has the vectors of each file, with their references replaced.
func vectorFiles() map[string][]vector {
	paths, _ := filepath.Glob(filepath.Join(vectorsFolder, "*.json"))
	files := map[string][]vector{}
	for _, path := range paths {
		if name := filepath.Base(path); name == "shared.json" || name == "webhooks.json" {
			continue
		}
		var given any
		readJSON(path, &given)
		var vectors []vector
		if err := json.Unmarshal([]byte(encodeJSON(resolved(given))), &vectors); err != nil {
			panic(fmt.Sprint(path, err))
		}
		files[strings.TrimSuffix(filepath.Base(path), ".json")] = vectors
	}
	return files
}

func resolved(value any) any {
	switch value := value.(type) {
	case []any:
		entries := make([]any, len(value))
		for at, entry := range value {
			entries[at] = resolved(entry)
		}
		return entries
	case object:
		name := func(key string) string { text, _ := value[key].(string); return text }
		if known, isReference := shared().Values[name("$value")]; isReference {
			return resolved(known)
		}
		if document, isReference := shared().Documents[name("$jws")]; isReference {
			return document.JWS
		}
		if document, isReference := shared().Documents[name("$bearer")]; isReference {
			return "Bearer " + document.JWS
		}
		if lines, isReference := value["$lines"].([]any); isReference {
			texts, _ := arrayIn[string](resolved(lines))
			return strings.Join(texts, "\n")
		}
		entries := object{}
		for key, entry := range value {
			entries[key] = resolved(entry)
		}
		return entries
	}
	return value
}

func TestVectors(t *testing.T) {
	for file, vectors := range vectorFiles() {
		for _, vector := range vectors {
			t.Run(file+"/"+vector.Name, func(t *testing.T) { play(t, vector) })
		}
	}
}

func play(t *testing.T, of vector) {
	service := &scriptedService{}
	store := storeOf(of)
	now := mustParse(of.Clock)
	start := func(fields object) (*Client, error) {
		options := optionsOf(shared().Client, of.Client, fields)
		options.Store, options.Transport = store, service
		options.Clock = func() time.Time { return now }
		options.Timeout = 30 * time.Second
		if strings.Contains(encodeJSON(of), `"never"`) {
			options.Timeout = 200 * time.Millisecond
		}
		return New(options)
	}
	client, err := start(nil)
	if of.Refused {
		if err == nil {
			t.Fatal("the client was created")
		}
		return
	}
	for at, step := range of.Steps {
		if step.Clock != "" {
			now = mustParse(step.Clock)
		}
		if step.Store != nil {
			_ = store.Write(context.Background(), textOf(step.Store))
		}
		if step.Restart != nil {
			client, err = start(step.Restart)
		}
		if err != nil {
			t.Fatal(err)
		}
		service.script(step.Answers)
		goOn := func() {}
		if step.Call == "" {
			goOn = holdOperations(client.session)
		}
		state := callOf(client, step.Call, step.Argument)
		expectState(t, at+1, step, state, client)
		goOn()
		for _, problem := range service.problems() {
			t.Errorf("step %d: %s", at+1, problem)
		}
		client.session.work.Wait()
	}
}

// holdOperations lets operations wait until the questions of a step without a call were answered, because a question may start one.
func holdOperations(s *session) (goOn func()) {
	gate := &operation{done: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = gate
	return func() { close(gate.done) }
}

func callOf(client *Client, name, argument string) State {
	ctx := context.Background()
	switch name {
	case "ready":
		return client.Ready(ctx)
	case "activate":
		return client.Activate(ctx)
	case "activate_offline":
		return client.ActivateOffline(ctx, argument)
	case "start_trial":
		return client.StartTrial(ctx, argument)
	case "refresh":
		return client.Refresh(ctx)
	case "check":
		return client.Check(ctx)
	case "migrate":
		return client.Migrate(ctx, argument)
	case "release":
		return client.Release(ctx)
	case "deactivate":
		return client.Deactivate(ctx)
	case "call_home":
		return client.CallHome(ctx)
	case "":
		return client.State()
	}
	panic("unknown call " + name)
}

// releaseTime reads a time as a product does: the zero time if the text is none.
func releaseTime(text string) time.Time {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at
		}
	}
	return time.Time{}
}

func expectState(t *testing.T, at int, of step, state State, client *Client) {
	t.Helper()
	seen := observedState(state)
	for field, expected := range of.State {
		if !reflect.DeepEqual(seen[field], expected) {
			t.Errorf("step %d: %s is %v instead of %v", at, field, seen[field], expected)
		}
	}
	for key, expected := range of.Features {
		if client.HasFeature(key) != expected {
			t.Errorf("step %d: feature %s is not %v", at, key, expected)
		}
	}
	for key, expected := range of.Limits {
		if limit := client.Limit(key); limit != expected {
			t.Errorf("step %d: limit %s is %d instead of %d", at, key, limit, expected)
		}
	}
	for text, expected := range of.Covers {
		if client.Covers(releaseTime(text)) != expected {
			t.Errorf("step %d: a release of %s is not %v", at, text, expected)
		}
	}
	if of.OfflineRequest != nil {
		if request := parseObject([]byte(client.CreateOfflineRequest())); !reflect.DeepEqual(request, of.OfflineRequest) {
			t.Errorf("step %d: the offline request is %v instead of %v", at, request, of.OfflineRequest)
		}
	}
}

// observedState is a state in the notation of the vectors.
func observedState(state State) object {
	orNull := func(text string) any {
		if text == "" {
			return nil
		}
		return text
	}
	timeOrNull := func(at time.Time) any {
		if at.IsZero() {
			return nil
		}
		return formatTime(at.UnixMilli())
	}
	seen := object{
		"status": string(state.Status), "usable": state.Usable, "reason": orNull(string(state.Reason)),
		"licence_id": orNull(state.LicenceID), "activation_id": orNull(state.ActivationID),
		"plan_id": orNull(state.PlanID), "licence_status": orNull(state.LicenceStatus), "seats": nil,
		"updates_until": timeOrNull(state.UpdatesUntil), "expires_at": timeOrNull(state.ExpiresAt),
		"refresh_after": timeOrNull(state.RefreshAfter), "offline": state.Offline,
		"revocations": string(state.Revocations), "clock_turned_back": state.ClockTurnedBack, "problem": nil,
	}
	if state.Seats != nil {
		seen["seats"] = float64(*state.Seats)
	}
	if state.Problem != nil {
		seen["problem"] = string(state.Problem.Code)
	}
	return seen
}

// optionsOf reads the options of a client from the fields of the vectors. Later fields override earlier ones.
func optionsOf(given ...object) Options {
	fields := object{}
	for _, some := range given {
		for name, value := range some {
			fields[name] = value
		}
	}
	text := func(name string) string { text, _ := fields[name].(string); return text }
	roots, _ := arrayIn[string](fields["root_key"])
	return Options{
		BaseURL: text("base_url"), AppID: text("app_id"), RootKey: text("root_key"), RootKeys: roots,
		LicenceKey: text("licence_key"), Fingerprint: text("fingerprint"), Host: text("host"),
		ProductVersion: text("product_version"), NoBackground: true,
		Nonce: func() string { return text("nonce") },
	}
}

// storeOf is the store of a vector, which may fail or hang.
func storeOf(of vector) Store {
	good := &memoryStore{}
	if of.Store != nil {
		good.text = textOf(of.Store)
	}
	switch of.StoreFails {
	case "":
		return good
	case "never":
		return badStore{good, func() error { select {} }, func() error { select {} }}
	case "read":
		return badStore{good, func() error { return errors.New("the disk is broken") }, func() error { return nil }}
	}
	return badStore{good, func() error { return nil }, func() error { return errors.New("the disk is broken") }}
}

type badStore struct {
	store       Store
	read, write func() error
}

func (b badStore) Read(ctx context.Context) ([]byte, error) {
	if err := b.read(); err != nil {
		return nil, err
	}
	return b.store.Read(ctx)
}

func (b badStore) Write(ctx context.Context, text []byte) error {
	if err := b.write(); err != nil {
		return err
	}
	return b.store.Write(ctx, text)
}

func textOf(content any) []byte {
	if text, isText := content.(string); isText {
		return []byte(text)
	}
	return []byte(encodeJSON(content))
}

func mustParse(text string) time.Time {
	at, isTime := parseTime(text)
	if !isTime {
		panic(text + " is no time")
	}
	return timeOf(at)
}

// scriptedService is a transport that returns the answers of a step in order, and compares the requests.
type scriptedService struct {
	mu      sync.Mutex
	answers []scriptedAnswer
	asked   int
	wrong   []string
}

func (s *scriptedService) script(answers []scriptedAnswer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers, s.asked, s.wrong = answers, 0, nil
}

func (s *scriptedService) problems() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked < len(s.answers) {
		return append(s.wrong, fmt.Sprintf("%d of %d requests were sent", s.asked, len(s.answers)))
	}
	return s.wrong
}

func (s *scriptedService) RoundTrip(request *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var body object
	if request.Body != nil {
		text, _ := io.ReadAll(request.Body)
		body = parseObject(text)
	}
	line := request.Method + " " + request.URL.RequestURI()
	s.asked++
	if s.asked > len(s.answers) {
		s.wrong = append(s.wrong, "unexpected request "+line)
		return nil, errors.New("nothing more was expected")
	}
	expected := s.answers[s.asked-1]
	if line != expected.Request {
		s.wrong = append(s.wrong, fmt.Sprintf("request %s instead of %s", line, expected.Request))
	}
	for name, value := range expected.WithHeaders {
		if seen := request.Header.Get(name); seen != value {
			s.wrong = append(s.wrong, fmt.Sprintf("header %s is %q instead of %q", name, seen, value))
		}
	}
	for _, name := range expected.WithoutHeaders {
		if request.Header.Get(name) != "" {
			s.wrong = append(s.wrong, "unexpected header "+name)
		}
	}
	for name, value := range expected.WithJSON {
		if !reflect.DeepEqual(body[name], value) {
			s.wrong = append(s.wrong, fmt.Sprintf("%s is %v instead of %v", name, body[name], value))
		}
	}
	given := expected.Response
	switch given.Fails {
	case "unreachable":
		return nil, errors.New("no such host")
	case "never":
		<-request.Context().Done()
		return nil, request.Context().Err()
	}
	text := given.Text
	if given.JSON != nil {
		text = encodeJSON(given.JSON)
	}
	return newResponse(given.Status, text, given.Headers), nil
}

func newResponse(status int, text string, headers map[string]string) *http.Response {
	response := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text))}
	for name, value := range headers {
		response.Header.Set(name, value)
	}
	return response
}
