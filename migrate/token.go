package migrate

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
)

// minToken is the length of the shortest token that is taken.
const minToken = 16

// A sealer makes and checks the marks that manifests carry.
type sealer struct{ key []byte }

// newSealer derives a key from the cluster's token, so that a mark never tells
// anything that the token is used for elsewhere.
func newSealer(token []byte) (sealer, error) {
	if len(token) < minToken {
		return sealer{}, errors.New("archive: the cluster's token is missing or shorter than 16 bytes")
	}
	m := hmac.New(sha256.New, token)
	m.Write([]byte("headrace archive manifest"))
	return sealer{m.Sum(nil)}, nil
}

func (s sealer) mark(parts ...[]byte) []byte {
	m := hmac.New(sha256.New, s.key)
	for _, p := range parts {
		m.Write(p)
	}
	return m.Sum(nil)
}
