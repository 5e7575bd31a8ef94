package token

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"headrace/manager"
)

// tokenBytes is how many random bytes a token is made of.
const tokenBytes = 32

// Read returns the token of a file: the first line of it. See ReadAll.
func Read(file, maker string) (string, error) {
	all, err := ReadAll(file, maker)
	if err != nil {
		return "", err
	}
	return all[0], nil
}

// ReadAll returns the token of a file, and the one of a second line, if there is one, that is accepted of others as well: so
// tokens are changed while some have the old one. It refuses a file that others than its owner can read. What systemd hands to a
// service (LoadCredential=) may belong to root, with an access control list that lets
// one user more read it: the mode then shows that as the right of root's group.
func ReadAll(file, maker string) ([]string, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0) // no waiting, should it be a pipe
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no token in %s; copy the file that %s has made, or name it with --token-file", file, maker)
	}
	if err != nil {
		return nil, fmt.Errorf("read the token: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read the token: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file; name the one with the token with --token-file", file)
	}
	owner := info.Sys().(*syscall.Stat_t)
	fromSystemd := info.Mode().Perm() == 0o440 && owner.Uid == 0 && owner.Gid == 0
	if info.Mode().Perm()&0o077 != 0 && !fromSystemd {
		return nil, fmt.Errorf("the token in %s can be read by others; chmod 600 it, and make a new one if it was so for long", file)
	}
	if owner.Uid != 0 && int(owner.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("the token in %s belongs to user %d, who could change it; chown it", file, owner.Uid)
	}
	const most = 4096
	raw, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, fmt.Errorf("read the token: %w", err)
	}
	tokens := strings.Split(strings.TrimSpace(string(raw)), "\n")
	for i, token := range tokens {
		tokens[i] = strings.TrimSuffix(token, "\r")
		odd := strings.ContainsFunc(tokens[i], func(r rune) bool { return r <= ' ' || r > '~' })
		if len(tokens[i]) < manager.MinToken || len(raw) > most || odd || len(tokens) > 2 {
			return nil, fmt.Errorf("there is no token in %s: want one line of %d to %d printable characters, and at most a second one with a token that is accepted as well; remove the file to have %s make one", file, manager.MinToken, most, maker)
		}
	}
	return tokens, nil
}

// Make makes the file, complete or not at all, unless it is there.
func Make(file string) (made bool, err error) {
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return false, fmt.Errorf("make a token: %w; choose another file with --token-file", err)
	}
	random := make([]byte, tokenBytes)
	rand.Read(random)
	f, err := os.CreateTemp(dir, ".token-*") // mode 0600
	if err != nil {
		return false, fmt.Errorf("make a token: %w; choose another file with --token-file", err)
	}
	defer os.Remove(f.Name())
	_, err = fmt.Fprintln(f, hex.EncodeToString(random))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return false, fmt.Errorf("make a token: %w", err)
	}
	err = os.Link(f.Name(), file)
	if errors.Is(err, fs.ErrExist) {
		return false, nil // somebody else was quicker
	}
	if err != nil {
		return false, fmt.Errorf("make a token: %w", err)
	}
	return true, nil
}
