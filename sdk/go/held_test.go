package licensing

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

// someHeld are pieces of knowledge that processes with one store may have.
func someHeld(random *rand.Rand) held {
	pick := func(texts ...string) string { return texts[random.IntN(len(texts))] }
	h := emptyHeld(pick("", "K1", "K2"), 1000)
	h.time = seenTime{int64(random.IntN(3)), 5, random.IntN(2) == 0, int64(random.IntN(2))}
	h.licence.revision = int64(random.IntN(3))
	h.licence.refusal = Reason(pick("", "suspended", "expired"))
	h.licence.nonce = pick("", "n1", "n2")
	if random.IntN(2) == 0 {
		claims := &tokenClaims{licenceID: pick("a", "b"), issuedAt: int64(random.IntN(2))}
		h.licence.latest = &token{jws: claims.licenceID + pick("1", "2"), claims: claims}
	}
	if random.IntN(2) == 0 {
		h.keys = &keySet{jws: pick("x", "y"), issuedAt: int64(random.IntN(2))}
	}
	for _, id := range []string{"a", "b"} {
		if random.IntN(2) == 0 {
			list := &heldList{revocationList: revocationList{jws: pick("l", "m"), version: int64(random.IntN(2))}, checkedAt: int64(random.IntN(2)), etagSince: wholeList}
			h.revocations = mergeRevocations(h.revocations, map[string]revocations{id: {list, pick("", "n")}})
		}
	}
	// A merge has no absent map of revocations.
	return merge(h, held{})
}

func TestTheOrderAndTheNumberOfSavesDoNotMatter(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 5_000 {
		a, b, c := someHeld(random), someHeld(random), someHeld(random)
		if ab, ba := merge(a, b), merge(b, a); !reflect.DeepEqual(ab, ba) {
			t.Fatalf("not commutative: %+v and %+v", ab, ba)
		}
		if one, other := merge(merge(a, b), c), merge(a, merge(b, c)); !reflect.DeepEqual(one, other) {
			t.Fatalf("not associative: %+v and %+v", one, other)
		}
		if again := merge(merge(a, b), b); !reflect.DeepEqual(again, merge(a, b)) {
			t.Fatalf("not idempotent: %+v", again)
		}
	}
}
