package licensing

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"
)

// Whatever the service, the store and the clock do, a client answers each call with a consistent state, and grants only what a token
// signed by the application says.
func TestWhateverTheServiceTheStoreAndTheClockDo(t *testing.T) {
	var stores [][]byte
	var files []string
	var answers []scriptedAnswer
	for _, vectors := range vectorFiles() {
		for _, vector := range vectors {
			stores = append(stores, textOf(vector.Store))
			for _, step := range vector.Steps {
				answers = append(answers, step.Answers...)
				files = append(files, step.Argument)
			}
		}
	}
	calls := []string{
		"ready", "activate", "refresh", "check", "deactivate", "call_home", "migrate", "activate_offline", "release", "start_trial",
	}
	genuine := []int64{25, 3, 5, 100}
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	for range 1000 {
		now := startOfWorld
		options := optionsOf(shared().Client)
		options.Clock = func() time.Time { return now }
		options.Store = &memoryStore{text: damaged(random, stores[random.IntN(len(stores))])}
		options.Transport = roundTripper(func(*http.Request) (*http.Response, error) {
			given := answers[random.IntN(len(answers))].Response
			text := given.Text
			if given.JSON != nil {
				text = encodeJSON(given.JSON)
			}
			if given.Status == 0 || random.IntN(10) == 0 {
				return nil, errors.New("cut")
			}
			return newResponse(given.Status, string(damaged(random, []byte(text))), given.Headers), nil
		})
		client := newClient(t, options)
		for range random.IntN(8) {
			now = time.UnixMilli(random.Int64N(5e12) - 1e12)
			state := callOf(client, calls[random.IntN(len(calls))], string(damaged(random, []byte(files[random.IntN(len(files))]))))
			limit := client.Limit("max_projects")
			if !isConsistent(state) || state.Usable != slices.Contains(genuine, limit) ||
				client.HasFeature("beta_tools") != (limit == 100) {
				t.Fatalf("seed %d: %+v with the limit %d", seed, state, limit)
			}
		}
	}
}

// damaged changes a text now and then.
func damaged(random *rand.Rand, text []byte) []byte {
	if len(text) == 0 || random.IntN(4) > 0 {
		return text
	}
	text = slices.Clone(text)
	at := random.IntN(len(text))
	if random.IntN(2) == 0 {
		return text[:at]
	}
	text[at] = byte(random.IntN(256))
	return text
}

// isConsistent: Usable, Reason and the fields of the token agree with the status.
func isConsistent(state State) bool {
	hasReason, hasToken := state.Reason != "", !state.ExpiresAt.IsZero()
	switch state.Status {
	case StatusLicensed:
		return state.Usable && !hasReason && hasToken
	case StatusGrace:
		return state.Usable && hasReason && hasToken
	case StatusLapsed:
		return !state.Usable && hasReason && hasToken
	case StatusRefused:
		return !state.Usable && hasReason
	case StatusUnlicensed:
		return !state.Usable && hasReason && !hasToken
	}
	return false
}
