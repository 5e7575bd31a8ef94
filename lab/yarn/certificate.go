package yarn

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// stateStore is where the ResourceManager keeps what it must know after a restart.
func (c *config) stateStore() string { return filepath.Join(c.Dir, "rmstore") }

// authority is the directory of that store with the certificate by which the ResourceManager's
// proxy vouches for itself.
func (c *config) authority() string {
	return filepath.Join(c.stateStore(), "FSRMStateRoot", "ProxyCARoot")
}

// writeAuthority makes it. Else the ResourceManager makes one of its own, also where nobody
// asks for HTTPS, and looks for a second or more for primes: its compiler leaves out what makes
// that quick (-XX:TieredStopAtLevel=1).
func (c *config) writeAuthority() error {
	files, err := newAuthority()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.authority(), 0o700); err != nil {
		return err
	}
	for name, content := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(c.authority(), name), content, 0o600))
	}
	return errors.Join(err, filepath.WalkDir(c.stateStore(), func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, c.giveToUser(path))
	}))
}

// newAuthority makes the files of one, which all clusters of this process share.
var newAuthority = sync.OnceValues(func() (map[string][]byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "headrace-lab"},
		NotBefore: time.Now().AddDate(0, 0, -1), NotAfter: time.Now().AddDate(1, 0, 0), IsCA: true, BasicConstraintsValid: true}
	cert, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	return map[string][]byte{"caCert": cert, "caPrivateKey": private}, err
})
