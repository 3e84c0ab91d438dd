package licensing

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// licensingServer has the product endpoints over HTTP, with keys and data of one application in memory.
type licensingServer struct {
	*httptest.Server
	appID, rootKey string

	mu       sync.Mutex
	requests []string
	// instead answers instead of the service, if it is set.
	instead   http.HandlerFunc
	tokenLife time.Duration
	status    string
	// licences has ids by key, activations licence ids by "id fingerprint".
	licences    map[string]string
	activations map[string]string
	revoked     []string
	root, key   ed25519.PrivateKey
	kid         string
	// keys are the public ones; a rotation adds one.
	keys []object
}

func startServer(t *testing.T) *licensingServer {
	s := &licensingServer{
		appID: "app_01kahz5k00e000000000000001", tokenLife: 24 * time.Hour, status: "active",
		licences: map[string]string{}, activations: map[string]string{},
	}
	public, root, _ := ed25519.GenerateKey(nil)
	s.root, s.rootKey = root, "lrk_"+base64.RawURLEncoding.EncodeToString(public)
	s.rotateKey()
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *licensingServer) rotateKey() {
	public, key, _ := ed25519.GenerateKey(nil)
	s.key, s.kid = key, randomUUID()
	x := base64.RawURLEncoding.EncodeToString(public)
	s.keys = append(s.keys, object{"kty": "OKP", "crv": "Ed25519", "kid": s.kid, "x": x})
}

func (s *licensingServer) issue() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := strings.ToUpper(randomUUID())
	s.licences[key] = "lic_" + randomUUID()
	return key
}

func (s *licensingServer) revoke(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revoked = append(s.revoked, s.licences[key])
	s.status = "revoked"
}

func (s *licensingServer) answerWith(instead http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.instead = instead
}

func (s *licensingServer) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.requests...)
}

func (s *licensingServer) count(part string) int {
	return strings.Count(strings.Join(s.seen(), "\n"), part)
}

func (s *licensingServer) options() Options {
	return Options{
		BaseURL: s.URL + "/", AppID: s.appID, RootKey: s.rootKey, LicenceKey: s.issue(), Fingerprint: "machine-1",
		Host: "app.example.com", ProductVersion: "4.2.0", NoBackground: true,
	}
}

func (s *licensingServer) serve(w http.ResponseWriter, r *http.Request) {
	// The context of a request ends with its connection only after its body was read.
	text, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(text))
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	if instead := s.instead; instead != nil {
		s.mu.Unlock()
		instead(w, r)
		return
	}
	defer s.mu.Unlock()
	var body map[string]string
	_ = json.Unmarshal(text, &body)
	parts := append(strings.Split(strings.TrimPrefix(r.URL.Path, "/v1/"), "/"), "", "")
	switch r.Method + " " + parts[0] + " " + parts[2] {
	case "POST activations ":
		licence, isKnown := s.licences[body["licence_key"]]
		if !isKnown {
			reply(w, 404, object{"code": "not_found", "detail": "no such key"})
			return
		}
		id := "act_" + licence + body["fingerprint"]
		if !s.refuse(w) {
			s.activations[id] = licence
			reply(w, 201, s.token(id, body["nonce"]))
		}
	case "POST activations refresh":
		if !s.refuse(w) {
			reply(w, 200, s.token(parts[1], body["nonce"]))
		}
	case "DELETE activations ":
		delete(s.activations, parts[1])
		w.WriteHeader(204)
	case "GET apps revocations":
		since, _ := strconv.Atoi(r.URL.Query().Get("since"))
		now := time.Now().Unix()
		list := object{"app_id": s.appID, "version": len(s.revoked), "since": since, "revoked": append([]string{}, s.revoked[since:]...)}
		list["iat"], list["exp"] = now, now+86_400
		w.Header().Set("ETag", fmt.Sprintf(`"%d-%d"`, since, len(s.revoked)))
		reply(w, 200, object{"signature": sign(list, s.kid, s.key)})
	case "GET apps jwks.json":
		now := time.Now().Unix()
		set := object{"app_id": s.appID, "keys": s.keys, "iat": now, "exp": now + 30*86_400}
		reply(w, 200, object{"keys": s.keys, "signed": []string{sign(set, s.rootKey, s.root)}})
	default:
		reply(w, 404, object{"code": "not_found", "detail": "no such path"})
	}
}

func (s *licensingServer) refuse(w http.ResponseWriter) bool {
	if s.status != "active" {
		reply(w, 403, object{"code": "licence_refused", "reason": s.status, "detail": s.status})
	}
	return s.status != "active"
}

func (s *licensingServer) token(id, nonce string) object {
	now := time.Now().Unix()
	licence := s.activations[id]
	token := sign(object{
		"sub": licence, "aud": s.appID, "act": id, "iat": now, "exp": now + int64(s.tokenLife.Seconds()), "chk": 900,
		"plan_id": "pln_1", "status": s.status, "seats": nil, "nonce": nonce,
		"entitlements": object{"export_pdf": "true", "max_projects": "25"},
	}, s.kid, s.key)
	return object{"activation_id": id, "licence_id": licence, "token": token}
}

func sign(payload object, kid string, key ed25519.PrivateKey) string {
	part := func(value any) string { return base64.RawURLEncoding.EncodeToString([]byte(encodeJSON(value))) }
	text := part(object{"alg": "EdDSA", "kid": kid}) + "." + part(payload)
	return text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, []byte(text)))
}

func reply(w http.ResponseWriter, status int, body object) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
