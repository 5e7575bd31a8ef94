package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"headrace"
	"headrace/proc"
	"headrace/serve"
)

// TestLongNamesOfOld: what an older daemon has recorded as a name is cut to what one may have.
func TestLongNamesOfOld(t *testing.T) {
	old := &Record{Submission: Submission{ID: "t1", Name: strings.Repeat("é", 70000)}}
	b, err := old.encode()
	if err != nil {
		t.Fatal(err)
	}
	if r, err := decode(b); err != nil || serve.CheckLabel("name", r.Name) != nil || !strings.HasPrefix(old.Name, r.Name) || len(r.Name) < 100 {
		t.Errorf("%d bytes of a name are left, %v", len(r.Name), err)
	}
}

func TestJournalKeepsEverything(t *testing.T) {
	dir := t.TempDir()
	j, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	r := &Record{
		Submission: Submission{ID: "t7", Order: 7, Name: "n", UID: 1, User: "u", Priority: headrace.High, CPUs: 1.5},
		State:      headrace.Suspended, Held: true, Op: &Intent{Kind: headrace.Resuming, User: true, Grace: time.Second},
		Waits: Waits{Boot: "b", Since: time.Hour}, Exit: &proc.Exit{Code: 3, At: time.Unix(5, 7).UTC()}, SeenExit: time.Unix(5, 7).UTC(),
		Saved:   Saved{Checkpoint: &Image{Store: "s", Dir: "/d", Seq: 2}, RanOn: true, ImageDirs: []string{"/d"}},
		History: []Event{{AtMs: 1, State: "pending"}},
	}
	m := &Meta{Boot: "b", Order: 7, SwapSpeed: SwapSpeed{SwapOut: 1}, Stores: map[string]Measure{"/d": {Write: 2}}}
	spec := &proc.Spec{ID: "t7", Argv: []string{"a"}, Env: []string{"K=V"}}
	if err := j.Commit(Batch{Meta: m, Records: []*Record{r}, Specs: map[headrace.TaskID]*proc.Spec{"t7": spec}}); err != nil {
		t.Fatal(err)
	}
	if err := j.Commit(Batch{Records: []*Record{{Submission: Submission{ID: "t8"}, State: headrace.Done}}}); err != nil {
		t.Fatal(err)
	}
	if err := j.Commit(Batch{Deleted: []headrace.TaskID{"t8"}}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if j, err = Open(dir); err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	c, err := j.Load()
	if err != nil {
		t.Fatal(err)
	}
	want := *r
	want.Version, want.StateName = version, "suspended"
	if len(c.Records) != 1 || !reflect.DeepEqual(*c.Records[0], want) {
		t.Errorf("got  %+v\nwant %+v", c.Records, want)
	}
	env, err := j.Env("t7")
	if err != nil || !reflect.DeepEqual(env, spec.Env) {
		t.Errorf("the environment is %q, %v", env, err)
	}
	spec.Env = nil // it is read when it is needed
	if !reflect.DeepEqual(c.Meta, *m) || !reflect.DeepEqual(c.Specs["t7"], spec) {
		t.Errorf("got %+v and %+v", c.Meta, c.Specs["t7"])
	}
	if _, err := j.Env("t8"); err == nil {
		t.Error("a task that is not there has an environment")
	}
}

func TestNewerRecordIsRefused(t *testing.T) {
	for _, data := range []string{`{"version": 99, "state": "running"}`, `{"version": 1, "state": "dancing"}`, "{"} {
		if _, err := decode([]byte(data)); err == nil {
			t.Errorf("%s was accepted", data)
		}
	}
}

// olderRecord is what daemons have written since the first, with the name of an
// operation missing.
const olderRecord = `{"version":1,"id":"t7","order":7,"name":"n","job":"j","uid":1,"user":"u","priority":8,"cpus":1.5,` +
	`"state":"suspended","op":{"kind":%[1]q,"user":true,"for":"t8","store":"s","dir":"/d","page_out":5,` +
	`"grace":1000000000,"began":3,"at_ms":4,"delay":2,"reason":"r"},"held":true,"boot":"b",` +
	`"since":3600000000000,"submitted_ms":0,"exit":{"code":3,"usage":{"user":0,"system":0,"running":0,` +
	`"overhead_cpu":0,"max_resident":0,"read_bytes":0,"written_bytes":0},"at":"0001-01-01T00:00:00Z"},` +
	`"seen_exit":"0001-01-01T00:00:00Z","base":{"user":0,"system":0,"running":0,"overhead_cpu":0,` +
	`"max_resident":0,"read_bytes":0,"written_bytes":0},"last":{"user":0,"system":0,"running":0,` +
	`"overhead_cpu":0,"max_resident":0,"read_bytes":0,"written_bytes":0},"hosting":{"scheduler":"yarn",` +
	`"application":"a","queue":"q"},"history":[{"at_ms":1,"state":%[1]q,"reason":"r"}]}`

// raised is what an older daemon has written as this one writes it.
func raised(old string) string {
	return strings.Replace(old, `"version":1`, fmt.Sprintf(`"version":%d`, version), 1)
}

// TestRecordsOfOlderDaemons reads and writes what an older daemon has left, byte for byte but for the version.
func TestRecordsOfOlderDaemons(t *testing.T) {
	for _, kind := range []string{
		"starting", "suspending", "resuming", "checkpointing", "restoring", "killing", "archiving", "taking back",
	} {
		old := fmt.Sprintf(olderRecord, kind)
		r, err := decode([]byte(old))
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if r.Op.Kind.String() != kind {
			t.Errorf("%s is read as %v", kind, r.Op.Kind)
		}
		if now, err := r.encode(); err != nil || string(now) != raised(old) {
			t.Errorf("%s: %v\nread    %s\nwritten %s", kind, err, old, now)
		}
	}
	if _, err := decode(fmt.Appendf(nil, olderRecord, "dancing")); err == nil || !strings.Contains(err.Error(), `unknown operation "dancing"`) {
		t.Errorf("an operation that nobody knows: %v", err)
	}
}

// fullRecord and fullMeta have every field that daemons of version 1 write.
const (
	fullRecord = `{"version":1,"id":"t7","order":7,"name":"n","job":"j","uid":1,"user":"u","priority":8,"cpus":1.5,` +
		`"memory":9,"pids":10,"io_weight":11,"spec_bytes":12,"restart_on_loss":true,"state":"lost",` +
		`"op":{"kind":"killing","began":3,"at_ms":4},"reason":"r","held":true,"boot":"b","since":13,"waited":14,` +
		`"submitted_ms":16,"started_ms":17,"ended_ms":18,"exit":{"code":3,"usage":{"user":0,"system":0,` +
		`"running":0,"overhead_cpu":0,"max_resident":0,"read_bytes":0,"written_bytes":0},"at":"0001-01-01T00:00:00Z"},` +
		`"seen_exit":"1970-01-01T00:00:05.000000007Z","starts":19,"losses":20,"preemptions":21,"lost_cpu":22,"lost_wall":23,` +
		`"base":{"user":24,"system":0,"running":0,"overhead_cpu":0,"max_resident":0,"read_bytes":0,"written_bytes":0},` +
		`"last":{"user":25,"system":0,"running":0,"overhead_cpu":0,"max_resident":0,"read_bytes":0,"written_bytes":0},` +
		`"checkpoint":{"store":"s","dir":"/d","compress":true,"seq":26,"chain":27,"stored":28,"to_read":29,"taken_ms":30,` +
		`"dump":31,"restore":32},"ran_on":true,"forfeit":true,"image_dirs":["/d"],"ratio":0.5,` +
		`"input":{"stream":"s1","index":33,"of":34,"split":1,"paths":["/p"],"files":35,"bytes":36,"no_warm":true},` +
		`"sent":{"id":"x","done":true},"hosting":{"scheduler":"yarn","application":"a","queue":"q","submitter":"u"},` +
		`"no_checkpoint":"nc","no_suspend":"ns","continued":37,"continued_here":38,"continued_ms":39,"no_limits":"nl",` +
		`"history":[{"at_ms":1,"state":"pending","reason":"r","delay":40,"took":41,"bytes":42}]}`
	fullMeta = `{"version":1,"boot":"b","order":2,"swap_out":3,"swap_in":4,"swap_boot":"c","stores":{"/d":{"write":5,"read":6,` +
		`"dump_overhead":7,"restore_overhead":8,"measured_ms":9}}}`
)

// TestRecordsKeepTheirForm: what older daemons have written is kept.
func TestRecordsKeepTheirForm(t *testing.T) {
	r, err := decode([]byte(fullRecord))
	if err != nil {
		t.Fatal(err)
	}
	if now, err := r.encode(); err != nil || string(now) != raised(fullRecord) {
		t.Errorf("%v\nread    %s\nwritten %s", err, fullRecord, now)
	}
	var m Meta
	if err := json.Unmarshal([]byte(fullMeta), &m); err != nil {
		t.Fatal(err)
	}
	if now, err := json.Marshal(&m); err != nil || string(now) != fullMeta {
		t.Errorf("%v\nread    %s\nwritten %s", err, fullMeta, now)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	var r Record
	for i := range 10 * maxHistory {
		r.Note(Event{AtMs: int64(i)})
	}
	if len(r.History) > maxHistory || r.History[0].AtMs != 0 || r.History[len(r.History)-1].AtMs != 10*maxHistory-1 {
		t.Errorf("%d events, from %d to %d", len(r.History), r.History[0].AtMs, r.History[len(r.History)-1].AtMs)
	}
	for i := 1; i < len(r.History); i++ {
		if r.History[i].AtMs <= r.History[i-1].AtMs {
			t.Fatalf("event %d is followed by %d", r.History[i-1].AtMs, r.History[i].AtMs)
		}
	}
}

// TestReasonsOfTheEndedAreBounded: of a task that has ended the longest reasons in the history are cut, all together to a bound, but
// for the last; records of older daemons too.
func TestReasonsOfTheEndedAreBounded(t *testing.T) {
	long := strings.Repeat("ä", mostReason/2)
	r := &Record{State: headrace.Failed}
	for i := range 2 * maxHistory {
		r.Note(Event{State: Trouble, Reason: []string{"short", long}[i%2]})
	}
	r.Note(Event{State: "failed", Reason: long})
	old, err := r.encode()
	if err != nil {
		t.Fatal(err)
	}
	before := slices.Clone(r.History)
	shown := r.History
	r.Condense()
	again, err := decode(old)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(shown, before) {
		t.Error("what somebody may be reading was changed")
	}
	if !slices.Equal(again.History, r.History) {
		t.Error("the record of an older daemon is not cut, or otherwise")
	}
	n, last := 0, len(r.History)-1
	for i, e := range r.History[:last] {
		n += len(e.Reason)
		if want := "short"; before[i].Reason == want && e.Reason != want || e.Reason != want && !strings.HasSuffix(e.Reason, "ä"+cutShort) || !utf8.ValidString(e.Reason) {
			t.Errorf("event %d: %q", i, e.Reason)
		}
	}
	if n > mostEnded || n < mostEnded/3 || r.History[last].Reason != long || last+1 != len(before) {
		t.Errorf("%d events, their reasons have %d bytes, the last %d", last+1, n, len(r.History[last].Reason))
	}
	few := &Record{State: headrace.Failed, History: []Event{{Reason: long}, {Reason: long}}}
	few.Condense()
	if few.History[0].Reason != long {
		t.Error("what is not too much is cut")
	}
	(&Record{}).Condense()
}

// TestReserve fills a real file system and looks that records can be written
// all the same.
func TestReserve(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "small")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=16m"); err != nil {
		t.Skip("mounting a small file system needs root: ", err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	j, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if !j.KeepReserve() {
		t.Fatal("no reserve on an empty file system")
	}
	fill, err := os.Create(filepath.Join(dir, "fill"))
	if err != nil {
		t.Fatal(err)
	}
	defer fill.Close()
	block := make([]byte, 4096)
	for err == nil {
		_, err = fill.Write(block)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	big := Batch{Records: []*Record{{Submission: Submission{ID: "t1"}, Reason: strings.Repeat("x", 200<<10)}}}
	if err := j.Commit(big); !errors.Is(err, ErrNoSpace) {
		t.Fatalf("commit on a full file system: %v", err)
	}
	if !j.SpendReserve() {
		t.Fatal("the reserve is not there")
	}
	if err := j.Commit(big); err != nil {
		t.Fatal("commit after the reserve was given up:", err)
	}
	c, err := j.Load()
	if err != nil || len(c.Records) != 1 {
		t.Errorf("%d records, %v", len(c.Records), err)
	}
	for err = nil; err == nil; {
		_, err = fill.Write(block)
	}
	if j.KeepReserve() {
		t.Error("a reserve on a full file system")
	}
	if err := fill.Truncate(0); err != nil {
		t.Fatal(err)
	}
	if !j.KeepReserve() {
		t.Error("no reserve although there is room again")
	}
}

// What people find in a history is explained to them, and nothing else.
func TestHistoryIsDocumented(t *testing.T) {
	want := []string{Held, Released, PagedOut, Archived, StoppedAgain, Trouble}
	for s := headrace.Pending; s <= headrace.Lost; s++ {
		want = append(want, s.String())
	}
	for o := headrace.Starting; o <= headrace.TakingBack; o++ { // the others leave no trace
		want = append(want, o.String())
	}
	text, err := os.ReadFile("../../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## What the history says\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var got []string
	for line := range strings.Lines(section) {
		if words, _, is := strings.Cut(strings.TrimPrefix(line, "| "), " | "); is && strings.HasPrefix(line, "| `") {
			for word := range strings.SplitSeq(words, ", ") {
				got = append(got, strings.Trim(word, "`"))
			}
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("explained are %q\nwant          %q", got, want)
	}
}
