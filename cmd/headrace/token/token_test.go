package token

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestTokenPermissions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(sharedToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(what, refused string) {
		t.Helper()
		token, err := Read(file, "headrace manager")
		if refused == "" && (err != nil || token != sharedToken) {
			t.Errorf("%s: %q, %v", what, token, err)
		}
		if refused != "" && (err == nil || !strings.Contains(err.Error(), refused)) {
			t.Errorf("%s: %v, want %q", what, err, refused)
		}
	}
	mode := func(mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
	}
	check("0600", "")
	mode(0o400)
	check("0400", "")
	for _, m := range []os.FileMode{0o604, 0o620, 0o640, 0o660, 0o444} {
		mode(m)
		check(m.String(), "chmod 600")
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{pipe, t.TempDir()} {
		if _, err := Read(what, "headrace manager"); err == nil || !strings.Contains(err.Error(), "is no file") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("the rest needs files of other users")
	}
	mode(0o440)
	check("0440 of root's group", "")
	if err := os.Chown(file, 0, 1); err != nil {
		t.Fatal(err)
	}
	check("0440 of another group", "chmod 600")
	if err := os.Chown(file, 1, 0); err != nil {
		t.Fatal(err)
	}
	check("0440 of another user", "chmod 600")
	mode(0o400)
	check("0400 of another user", "chown")
}

// TestSecondToken: a second line is a token that is accepted as well, and more is refused.
func TestSecondToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	const old = "the-one-of-before"
	for text, want := range map[string][]string{
		sharedToken:                                    {sharedToken},
		sharedToken + "\n" + old + "\n":                {sharedToken, old},
		sharedToken + "\r\n" + old + "\r\n":            {sharedToken, old},
		sharedToken + "\n\n" + old:                     nil,
		sharedToken + "\nshort":                        nil,
		sharedToken + "\n" + old + "\n" + old + "more": nil,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := ReadAll(file, "headrace manager")
		if !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
		if first, _ := Read(file, "headrace manager"); want != nil && first != sharedToken {
			t.Errorf("%q: the token is %q", text, first)
		}
	}
}

// What a service of another user than root gets from systemd.
func TestTokenFromSystemd(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it needs a file of root's")
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(sharedToken), 0o400); err != nil {
		t.Fatal(err)
	}
	acl := binary.LittleEndian.AppendUint32(nil, 2) // its version
	const owner, user, group, mask, other, nobody = 1, 2, 4, 0x10, 0x20, 0xffffffff
	for _, e := range []struct {
		tag, rights uint16
		id          uint32
	}{{owner, 4, nobody}, {user, 4, 12345}, {group, 0, nobody}, {mask, 4, nobody}, {other, 0, nobody}} {
		acl = binary.LittleEndian.AppendUint16(acl, e.tag)
		acl = binary.LittleEndian.AppendUint16(acl, e.rights)
		acl = binary.LittleEndian.AppendUint32(acl, e.id)
	}
	err := unix.Setxattr(file, "system.posix_acl_access", acl, 0)
	if errors.Is(err, unix.ENOTSUP) {
		t.Skip("no access control lists here: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(file); err != nil || st.Mode() != 0o440 {
		t.Fatalf("%v, %v; want 0440", st.Mode(), err)
	}
	if token, err := Read(file, "headrace manager"); err != nil || token != sharedToken {
		t.Errorf("%q, %v", token, err)
	}
}

const sharedToken = "0123456789abcdef0123456789abcdef"
