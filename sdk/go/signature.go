package licensing

import (
	"crypto/ed25519"
	"encoding/base64"
	"strings"
)

// publicKey is a JWK. Its kid and x are used; x is the Ed25519 key in base64url.
type publicKey = object

// unreadable says why a signed text cannot be used; it is empty if it can.
type unreadable string

const (
	// unknownKey: the key is not among those given, perhaps a newer one.
	unknownKey unreadable = "unknown_key"
	// forged: the signature or the content is wrong.
	forged unreadable = "forged"
)

// verify returns the payload of a compact JWS of the service. Only Ed25519 is accepted, whatever the header and the key claim.
func verify(jws string, keys []publicKey) (object, unreadable) {
	header, payload, signature, isJWS := partsOfJWS(jws)
	protected := objectIn(header)
	if !isJWS || protected == nil {
		return nil, forged
	}
	key := keyOf(jws, keys)
	if key == nil {
		return nil, unknownKey
	}
	x, _ := key["x"].(string)
	public, proof := decodeBase64(x), decodeBase64(signature)
	_, isCritical := protected["crit"]
	if protected["alg"] != "EdDSA" || isCritical || len(public) != ed25519.PublicKeySize {
		return nil, forged
	}
	claims := objectIn(payload)
	if claims == nil || !ed25519.Verify(public, []byte(header+"."+payload), proof) {
		return nil, forged
	}
	return claims, ""
}

// keyOf is the key that a JWS claims to be signed with; nil if it is not among these.
func keyOf(jws string, keys []publicKey) publicKey {
	header, _, _, _ := partsOfJWS(jws)
	if kid, isText := objectIn(header)["kid"].(string); isText {
		for _, key := range keys {
			if key["kid"] == kid {
				return key
			}
		}
	}
	return nil
}

// unverifiedClaims are the claims of a token, not verified; nil if there are none.
func unverifiedClaims(jws string) object {
	_, payload, _, _ := partsOfJWS(jws)
	return objectIn(payload)
}

func partsOfJWS(jws string) (header, payload, signature string, isJWS bool) {
	parts := strings.Split(jws, ".")
	if len(parts) != 3 {
		return "", "", "", false
	}
	return parts[0], parts[1], parts[2], true
}

func objectIn(part string) object {
	return parseObject(withoutMark(decodeBase64(part)))
}

// decodeBase64 decodes base64url; nil if the text is not the only form of its bytes.
func decodeBase64(text string) []byte {
	bytes, err := base64.RawURLEncoding.Strict().DecodeString(text)
	// The decoder ignores line breaks.
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return nil
	}
	return bytes
}
