package licensing

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"time"
)

// answer is the outcome of a request.
type answer struct {
	kind   answerKind
	status int
	// body is that of a success; nil if it has none.
	body object
	etag string
	// code is that of a refusal.
	code string
	// reason is that of a refusal, empty if it has none, or of a failure.
	reason     Reason
	detail     string
	retryAfter int64
}

type answerKind int

const (
	// failure: there is no answer, or not a valid one.
	failure answerKind = iota
	success
	// refusal: the service refused the call, in its error format.
	refusal
)

// call is a request. Its path begins with /v1.
type call struct {
	method, path string
	body         object
	// token authorises the call.
	token       string
	ifNoneMatch string
}

// service makes all network calls.
type service struct {
	base      string
	transport http.RoundTripper
	clock     func() int64
}

const (
	// A whole revocation list has about 1.3 MB. A longer answer is of another server, and would fill the memory.
	maxAnswerBytes = 2 << 20
	// maxRetryAfter is the longest wait that is followed, so that one absurd answer does not lock a product out.
	maxRetryAfter = hour
)

var errTooLong = errors.New("the answer is too long")

// ask sends a request. It returns when the context ends at the latest, even if the transport ignores that.
func (s *service) ask(ctx context.Context, c call) answer {
	received, err := await(ctx, func(ctx context.Context) (answer, error) { return s.exchange(ctx, c) })
	switch {
	case err == nil:
		return received
	case ctx.Err() != nil:
		return failed(ReasonTimeout, c.path+" was not answered in time")
	case errors.Is(err, errTooLong):
		return failed(ReasonUnexpectedAnswer, err.Error())
	}
	return failed(ReasonUnreachable, err.Error())
}

func (s *service) exchange(ctx context.Context, c call) (answer, error) {
	var body io.Reader
	if c.body != nil {
		body = bytes.NewReader([]byte(encodeJSON(c.body)))
	}
	// An invalid address must not stop the start of a product: it counts as unreachable.
	request, err := http.NewRequestWithContext(ctx, c.method, s.base+c.path, body)
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Accept", "application/json")
	if c.body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.ifNoneMatch != "" {
		request.Header.Set("If-None-Match", c.ifNoneMatch)
	}
	// A transport follows no redirect. The service never redirects: a redirect comes from the login page of a network, for example.
	response, err := s.transport.RoundTrip(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes+1))
	switch {
	case len(text) > maxAnswerBytes:
		return answer{}, errTooLong
	case err != nil:
		return answer{}, err
	}
	return s.readAnswer(response, parseObject(withoutMark(text))), nil
}

func (s *service) readAnswer(response *http.Response, body object) answer {
	status := response.StatusCode
	detail, hasDetail := body["detail"].(string)
	if !hasDetail {
		detail = fmt.Sprintf("status %d", status)
	}
	code, hasCode := body["code"].(string)
	isSuccess := status == 204 || status == 304 || (status >= 200 && status < 300 && body != nil)
	switch {
	case status == 429 || status >= 500:
		busy := failed(ReasonUnavailable, detail)
		if status == 429 {
			busy.reason = ReasonRateLimited
		}
		busy.retryAfter = retryAfter(response.Header, s.clock())
		return busy
	case isSuccess:
		return answer{kind: success, status: status, body: body, etag: response.Header.Get("ETag")}
	case status >= 400 && hasCode:
		reason, _ := body["reason"].(string)
		return answer{kind: refusal, status: status, code: code, reason: Reason(reason), detail: detail}
	}
	return failed(ReasonUnexpectedAnswer, detail)
}

func failed(reason Reason, detail string) answer {
	return answer{kind: failure, reason: reason, detail: detail, retryAfter: noWait}
}

// unexpected makes a failure of an answer that could be read, but is not valid.
func (a answer) unexpected() answer {
	switch a.kind {
	case failure:
		return a
	case refusal:
		return failed(ReasonUnexpectedAnswer, fmt.Sprintf("status %d, %s: %s", a.status, a.code, a.detail))
	}
	return failed(ReasonUnexpectedAnswer, fmt.Sprintf("status %d, an unexpected body", a.status))
}

func (a answer) trouble() *trouble {
	a = a.unexpected()
	return &trouble{a.reason, a.detail, a.retryAfter}
}

// isGone: the service has freed what was to be freed, or does not know it any more.
func (a answer) isGone() bool {
	return a.kind == success || (a.kind == refusal && a.status == 404)
}

var secondsPattern = regexp.MustCompile(`^\d{1,10}$`)

// retryAfter says how long an answer asks to wait; noWait if it does not. A date is compared with that of the same answer, because
// the local clock may be wrong.
func retryAfter(header http.Header, now int64) int64 {
	text := header.Get("Retry-After")
	if secondsPattern.MatchString(text) {
		seconds, _ := strconv.ParseInt(text, 10, 64)
		return min(seconds*second, maxRetryAfter)
	}
	until, err := http.ParseTime(text)
	if err != nil {
		return noWait
	}
	from, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		from = time.UnixMilli(now)
	}
	return min(max(until.Sub(from).Milliseconds(), 0), maxRetryAfter)
}

// await runs work that may ignore its context, and returns when the context ends at the latest. A panic is an error.
func await[T any](ctx context.Context, work func(context.Context) (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		var of outcome
		err := protect(func() { of.value, of.err = work(ctx) })
		done <- outcome{of.value, cmp.Or(err, of.err)}
	}()
	select {
	case of := <-done:
		return of.value, of.err
	case <-ctx.Done():
		return outcome{}.value, ctx.Err()
	}
}

// protect makes an error of a panic.
func protect(work func()) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	work()
	return nil
}
