package peer

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"
)

// MinToken is how many bytes a token has at least.
const MinToken = 16

// ErrStranger is the error of a connection to somebody who has not the same token.
var ErrStranger = errors.New("it has another token")

// A Secret is what nodes prove that they have.
type Secret struct {
	certificate tls.Certificate
	// public are the keys that are accepted of others.
	public []ed25519.PublicKey
}

// NewSecret derives the secret of a token. The same token gives the same secret everywhere. Of others those of the tokens in accepted
// are taken as well: so it is changed while some have the old one.
func NewSecret(token string, accepted ...string) (*Secret, error) {
	s, err := newSecret(token)
	for _, token := range accepted {
		if err != nil {
			break
		}
		var other *Secret
		if other, err = newSecret(token); err == nil {
			s.public = append(s.public, other.public...)
		}
	}
	return s, err
}

func newSecret(token string) (*Secret, error) {
	if len(token) < MinToken {
		return nil, fmt.Errorf("the token has %d bytes; it must have at least %d", len(token), MinToken)
	}
	seed, err := hkdf.Key(sha256.New, []byte(token), nil, "headrace dfs peer 1", ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	key := ed25519.NewKeyFromSeed(seed)
	public := key.Public().(ed25519.PublicKey)
	// Nobody looks at more of it than the key.
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "headrace dfs"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}
	der, err := x509.CreateCertificate(nil, c, c, public, key)
	if err != nil {
		return nil, err
	}
	return &Secret{tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, []ed25519.PublicKey{public}}, nil
}

// config is that of both ends, for connections of some protocols.
func (s *Secret) config(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{s.certificate}, NextProtos: protocols,
		ClientAuth: tls.RequireAnyClientCert, InsecureSkipVerify: true, // both leave it to verify
		VerifyConnection: s.verify, SessionTicketsDisabled: true,
	}
}

// verify refuses whoever has another key. That it has this one, its signature in the handshake proves, which crypto/tls verifies.
func (s *Secret) verify(c tls.ConnectionState) error {
	if len(c.PeerCertificates) != 1 || !slices.ContainsFunc(s.public, func(k ed25519.PublicKey) bool { return k.Equal(c.PeerCertificates[0].PublicKey) }) {
		return ErrStranger
	}
	return nil
}
