package shim

import (
	"encoding/json"
	"math"
	"os"
	"syscall"
	"testing"
	"time"
)

// TestEndByCRIU: a command that a CRIU which was killed has taken with it is lost, whenever that is found and however long
// the record of its end takes. One that ends by itself has failed.
func TestEndByCRIU(t *testing.T) {
	broke := (*life).dumpBroke
	later := func(l *life) { // than anybody would wait
		if l.suspect != math.MaxInt64 {
			l.suspect -= time.Hour
		}
	}
	emptied := func(l *life) { l.emptied(); l.phase = running }
	for _, c := range []struct {
		name string
		does []func(*life)
		st   commandStatus
		lost bool
	}{
		{"a trap, at once", []func(*life){broke, (*life).goOn}, commandStatus{Signal: int(syscall.SIGTRAP)}, true},
		{"a trap, later", []func(*life){broke, (*life).goOn, later}, commandStatus{Signal: int(syscall.SIGTRAP)}, true},
		{"a trap, of a later stop", []func(*life){broke, (*life).goOn, later, (*life).goOn}, commandStatus{Signal: int(syscall.SIGTRAP)}, true},
		{"a trap of its own", []func(*life){(*life).goOn}, commandStatus{Signal: int(syscall.SIGTRAP)}, false},
		{"a trap, and all of it was restored since", []func(*life){broke, emptied, (*life).goOn}, commandStatus{Signal: int(syscall.SIGTRAP)}, false},
		{"a fault, at once", []func(*life){broke, (*life).goOn}, commandStatus{Signal: int(syscall.SIGSEGV)}, true},
		{"a fault, after a long stop", []func(*life){broke, later, (*life).goOn}, commandStatus{Signal: int(syscall.SIGSEGV)}, true},
		{"a fault, later", []func(*life){broke, (*life).goOn, later}, commandStatus{Signal: int(syscall.SIGSEGV)}, false},
		{"a fault, after a later stop", []func(*life){broke, (*life).goOn, later, (*life).goOn}, commandStatus{Signal: int(syscall.SIGSEGV)}, false},
		{"its end", []func(*life){broke, (*life).goOn}, commandStatus{Code: 3}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			b, err := json.Marshal(c.st)
			if err == nil {
				err = os.WriteFile(commandExit, b, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			l := &life{phase: running, over: make(chan struct{})}
			for _, do := range c.does {
				do(l)
			}
			if !l.rootDied() {
				t.Fatal("it has not ended")
			}
			if l.suspect != 0 && l.suspect != math.MaxInt64 { // what it has left behind takes long to end
				l.suspect, l.diedAt = l.suspect-time.Minute, l.diedAt-time.Minute
			}
			l.end(false)
			if e := l.howEnded(); e.Lost != c.lost {
				t.Errorf("%+v, lost: want %v", e, c.lost)
			}
		})
	}
}
