package migrate

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
)

// minToken is the length of the shortest token that is taken.
const minToken = 16

// A sealer makes and checks the marks that manifests carry: it makes them with its first key.
type sealer struct{ keys [][]byte }

// newSealer derives keys from the cluster's token, and from those that are accepted as well, so that a mark never tells
// anything that the token is used for elsewhere.
func newSealer(token []byte, accepted []string) (s sealer, err error) {
	for _, token := range append([][]byte{token}, asBytes(accepted)...) {
		if len(token) < minToken {
			return sealer{}, errors.New("archive: the cluster's token is missing or shorter than 16 bytes")
		}
		s.keys = append(s.keys, sum(token, []byte("headrace archive manifest")))
	}
	return s, nil
}

func asBytes(texts []string) (all [][]byte) {
	for _, t := range texts {
		all = append(all, []byte(t))
	}
	return all
}

func (s sealer) mark(parts ...[]byte) []byte { return sum(s.keys[0], parts...) }

// made tells whether a mark, in hexadecimal digits, was made with one of the keys.
func (s sealer) made(mark string, parts ...[]byte) (ok bool) {
	for _, key := range s.keys {
		ok = hmac.Equal([]byte(mark), fmt.Appendf(nil, "%x", sum(key, parts...))) || ok
	}
	return ok
}

func sum(key []byte, parts ...[]byte) []byte {
	m := hmac.New(sha256.New, key)
	for _, p := range parts {
		m.Write(p)
	}
	return m.Sum(nil)
}
