package dfs

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"headrace/internal/accounts"
)

// TestGroupsOfADirectory: a caller has the groups that getent knows, those of a user that nobody knows are none,
// and what it cannot be asked is an error.
func TestGroupsOfADirectory(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"passwd": "root:x:0:0::/:\n", "group": "local:x:10:remote\n", "nsswitch.conf": "passwd: files sss\ngroup: files sss\n",
		"getent": "#!/bin/sh\ncase \"$1 $2\" in\n'passwd remote') echo remote:x:70001:70010:::;;\n'group 70010') echo staff:x:70010: ;;\n" +
			"'initgroups remote') echo remote 70010 ;;\n'passwd ill') echo ill ;;\n*) exit 2 ;;\nesac\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	db := accounts.New(dir, filepath.Join(dir, "getent"))
	if got, err := groupsOf(db, "remote"); !slices.Equal(got, []string{"staff", "local"}) || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := groupsOf(db, "nobody-at-all"); len(got) != 0 || err != nil {
		t.Errorf("of nobody: %v, %v", got, err)
	}
	if got, err := groupsOf(db, "ill"); err == nil {
		t.Errorf("of one that cannot be asked for: %v", got)
	}
}

// TestCallerLeavesAGroup: a user who has left a group is not in it the next time.
func TestCallerLeavesAGroup(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("passwd", "alice:x:1000:1000::/:\n")
	write("group", "alice:x:1000:\nstaff:x:10:alice\n")
	c := Callers{Accounts: accounts.New(dir, "")}
	if got := c.groups("alice"); !slices.Equal(got, []string{"alice", "staff"}) {
		t.Errorf("%v", got)
	}
	write("group", "alice:x:1000:\nstaff:x:10:bob\n")
	if got := c.groups("alice"); !slices.Equal(got, []string{"alice"}) {
		t.Errorf("after it has left: %v", got)
	}
}
