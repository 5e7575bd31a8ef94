package headrace

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestSegments(t *testing.T) {
	at := func(ms int64, s TaskState) Event { return Event{At: time.UnixMilli(ms), State: s} }
	begin := func(ms int64, o Operation) Event { return Event{At: time.UnixMilli(ms), Began: o} }
	h := History{
		at(0, Pending), begin(10, Starting), at(20, Running), begin(30, Suspending), at(40, Suspended), begin(50, Checkpointing),
		at(60, Checkpointed), begin(70, Restoring), at(80, Running), begin(90, Killing), at(100, Checkpointed), begin(95, Restoring), at(120, Running),
	}
	want := "pending 0-10, pending starting 10-20, running 20-30, running suspending 30-40 moving, suspended 40-50 aside, " +
		"suspended checkpointing 50-60 moving, checkpointed 60-70 aside, checkpointed restoring 70-80 moving, " +
		"running 80-90 lost, running killing 90-100 lost, checkpointed 100-100 aside, checkpointed restoring 100-120 moving, running 120"
	var got []string
	for _, s := range h.Segments() {
		text := s.State.String()
		if s.Doing != Idle {
			text += " " + s.Doing.String()
		}
		text += fmt.Sprintf(" %d", s.Start.UnixMilli())
		if !s.End.IsZero() {
			text += fmt.Sprintf("-%d", s.End.UnixMilli())
		}
		for what, so := range map[string]bool{" aside": s.Aside(), " moving": s.Moving(), " lost": s.Lost} {
			if so {
				text += what
			}
		}
		got = append(got, text)
	}
	if all := strings.Join(got, ", "); all != want {
		t.Errorf("got  %s\nwant %s", all, want)
	}
	if ended := append(h, at(130, Failed), at(140, Running)).Segments(); len(ended) != len(h) || ended[len(h)-1].End != time.UnixMilli(130) {
		t.Errorf("the task has ended: %+v", ended)
	}
}
