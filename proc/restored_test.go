package proc_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"headrace/proc"
	"headrace/proc/control"
)

// TestRestoredAndEnded: a task that was restored and has ended before its supervisor
// could say so is not restored a second time.
func TestRestoredAndEnded(t *testing.T) {
	for _, c := range []struct {
		name, record string
		restored     bool
	}{
		{"ended", `{"code": 7, "restored": true, "at": "2026-01-02T03:04:05Z"}`, true},
		{"vanished", "", false},
		{"idle", `{"code": 137, "signal": 9}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			rt := &proc.Runtime{Dir: t.TempDir()}
			dir := rt.TaskDir("t")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			t.Chdir(dir)
			l, err := control.Listen()
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go endAtRestore(l, filepath.Join(dir, "exit.json"), c.record)
			task, _, err := rt.Restore(t.Context(), proc.Spec{ID: "t"}, proc.RestoreOptions{})
			if !c.restored {
				if !errors.Is(err, proc.ErrGone) {
					t.Errorf("error %v, want that it is gone", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			<-task.Exited()
			if e := task.Exit(); e.Code != 7 {
				t.Errorf("it ended with %+v", e)
			}
		})
	}
}

// endAtRestore is a supervisor that ends in the middle of a restore, with a record of
// the task's end.
func endAtRestore(l net.Listener, file, record string) {
	conn, err := l.Accept()
	if err != nil {
		return
	}
	defer conn.Close()
	for dec := json.NewDecoder(conn); ; {
		var q struct {
			ID uint64 `json:"id"`
			Op string `json:"op"`
		}
		if dec.Decode(&q) != nil {
			return
		}
		if q.Op == "restore" {
			if record != "" {
				os.WriteFile(file, []byte(record), 0o600)
			}
			return
		}
		fmt.Fprintf(conn, `{"id":%d}`+"\n", q.ID)
	}
}

// TestRestoreAfterTheEnd: without a supervisor, a record of an end that the caller does
// not know says that the task was restored and has ended.
func TestRestoreAfterTheEnd(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	rt := &proc.Runtime{Dir: t.TempDir(), Shim: "/nonexistent"}
	dir := rt.TaskDir("t")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	spec := proc.Spec{ID: "t", Argv: []string{"true"}}
	for _, c := range []struct {
		exit proc.Exit
		seen time.Time
		gone bool
	}{
		{proc.Exit{Code: 7, At: at, Restored: true}, time.Time{}, true},
		{proc.Exit{Code: 7, At: at, Restored: true}, at.Add(-time.Nanosecond), true},
		{proc.Exit{Code: 7, At: at, Restored: true}, at, false},
		{proc.Exit{Code: 7, At: at, Restored: true, Lost: true}, time.Time{}, false},
		{proc.Exit{Code: 7, At: at}, time.Time{}, false},
	} {
		record, err := json.Marshal(c.exit)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "exit.json"), record, 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err = rt.Restore(t.Context(), spec, proc.RestoreOptions{SeenExit: c.seen})
		if err == nil || errors.Is(err, proc.ErrGone) != c.gone {
			t.Errorf("%+v, known %v: %v, want ErrGone: %v", c.exit, c.seen, err, c.gone)
		}
	}
}
