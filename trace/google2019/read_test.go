package google2019

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headrace"
	"headrace/trace/input"
	"headrace/trace/tracetest"
	"headrace/trace/workload"
)

const instances = `{"time":"0","type":"0","collection_id":"7","scheduling_class":"3","collection_type":"0","priority":"200","instance_index":"0","resource_request":{"cpus":0.5,"memory":0.25}}
{"time":"0","type":"SCHEDULE","collection_id":"7","scheduling_class":"3","collection_type":"0","priority":"200","instance_index":"0","machine_id":"1","resource_request":{"cpus":0.5,"memory":0.25}}
{"time":"0","type":"0","collection_id":"5","collection_type":"1","priority":"200","instance_index":"0"}
{"time":"610000000","type":"0","collection_id":"8","priority":"25","instance_index":"3","resource_request":{"cpus":0.25,"memory":0.125}}
{"time":"610000000","type":"1","collection_id":"8","priority":"25","instance_index":"3"}
{"time":"610000001","type":2,"collection_id":"8","priority":"25","instance_index":"3"}
{"time":"620000000","type":"3","collection_id":"8","priority":"25","instance_index":"3","machine_id":"2","resource_request":{"cpus":0.25,"memory":0.125}}
{"time":"640000000","type":"4","collection_id":"8","priority":"25","instance_index":"3","machine_id":"2","resource_request":null}
{"time":"640000000","type":"0","collection_id":"8","priority":"25","instance_index":"3"}
{"time":"641000000","type":"0","collection_id":"9","priority":"360","instance_index":"0"}
{"time":"641000000","type":"3","collection_id":"9","priority":"360","instance_index":"0","machine_id":"2"}
`

const more = `time,type,collection_id,scheduling_class,priority,instance_index,machine_id,resource_request.cpus,resource_request.memory
650000000,3,8,0,25,3,2,0.25,0.125
651000000,KILL,9,0,360,0,2,,
660000000,6,8,0,25,3,2,0.25,0.125
700000000,6,7,3,200,0,1,0.5,0.25
9223372036854775807,8,7,3,200,0,1,0.5,0.25
`

const collections = `{"time":"0","type":"0","collection_id":"7","user":"ann","collection_logical_name":"prog","collection_type":"0"}
{"time":"610000000","type":"0","collection_id":"8","user":"bob","start_after_collection_ids":["7","99"]}
`

func sample() map[string]string {
	return map[string]string{"instance_events-000000000000.json": instances, "instance_events-000000000001.csv": more, "collection_events/part.jsonl": collections, "README": "x"}
}

func TestRead(t *testing.T) {
	w, err := tracetest.Open(t, Read, tracetest.Write(t, sample()), workload.Given{CPUs: 16, Memory: 64 << 30}, workload.Part{Names: true})
	if err != nil {
		t.Fatal(err)
	}
	tracetest.Same(t, w, `
7:prog/0 at 0s for 1m40s priority 10, 8 cpus, 16384 MiB, ann, stage 0
8/3 at 10s for 10s priority 1, 4 cpus, 8192 MiB, bob, stage 1 after [0]
9/0 at 41s for 10s priority 11, 0 cpus, 0 MiB
`, "taken to have 16 CPUs and 64 GiB", "1 tasks ask for no CPUs", "1 events are of alloc sets")
	if k := w.Tasks[1]; !w.Recorded || k.Preempted != 1 || k.Lost != 20*time.Second || w.Tasks[0].Class != 3 {
		t.Errorf("%+v", k)
	}
	w, err = tracetest.Open(t, Read, tracetest.Write(t, sample()), workload.Given{}, workload.Part{From: 10 * time.Second, For: 20 * time.Second})
	if err != nil || len(w.Tasks) != 1 || w.Tasks[0].Submit != 0 || w.Tasks[0].CPUs != 8 {
		t.Errorf("%+v, %v", w, err)
	}
}

// Whether an eviction was a preemption goes by the priorities that were published: some hundred, where there are twelve here.
func TestPreemptedWithinPriority(t *testing.T) {
	for _, x := range []struct {
		left, came string
		want       int32
	}{{"103", "109", 1}, {"200", "320", 1}, {"25", "99", 1}, {"109", "103", 0}, {"103", "103", 0}, {"103", "200", 1}, {"200", "109", 0}} {
		text := strings.NewReplacer("LEFT", x.left, "CAME", x.came).Replace(`time,type,collection_id,scheduling_class,priority,instance_index,machine_id,resource_request.cpus,resource_request.memory
610000000,0,1,0,LEFT,0,,0.5,0.5
610000000,3,1,0,LEFT,0,7,0.5,0.5
620000000,0,2,0,CAME,0,,0.5,0.5
1000000000,4,1,0,LEFT,0,7,0.5,0.5
1001000000,3,2,0,CAME,0,7,0.5,0.5
1100000000,6,2,0,CAME,0,7,0.5,0.5
`)
		w, err := tracetest.Open(t, Read, tracetest.Write(t, map[string]string{"instance_events.csv": text}), workload.Given{}, workload.Part{})
		if err != nil {
			t.Fatal(err)
		}
		if k := w.Tasks[0]; len(w.Tasks) != 2 || int32(k.Preempted) != x.want {
			t.Errorf("%s after %s: got %d preemptions, want %d; %+v", x.came, x.left, k.Preempted, x.want, w.Tasks)
		}
	}
}

func TestPriority(t *testing.T) {
	last := headrace.Priority(0)
	for p := range int64(451) {
		got := priority(p)
		want := "production"
		switch {
		case p <= 99:
			want = "free"
		case p < 120:
			want = "middle"
		}
		if got.Band() != want || got < last {
			t.Errorf("%d: %d, in %s", p, got, got.Band())
		}
		last = got
	}
	if last != headrace.MaxPriority {
		t.Error(last)
	}
}

func TestReadRefuses(t *testing.T) {
	for _, c := range []struct {
		name, text, says string
	}{
		{"instance_events.json", `{"type":"x"}`, `instance_events.json: trace: line 1: type "x": want one of SUBMIT, QUEUE`},
		{"instance_events.json", `{"type":0,"time":"-x"}`, `line 1: time "-x": want a whole number`},
		{"instance_events.json", `{"type":0,"scheduling_class":4}`, `line 1: scheduling_class "4": want a whole number, at most 3`},
		{"instance_events.json", `{"type":0,"resource_request":{"cpus":-1}}`, `line 1: resource_request.cpus "-1": want a share`},
		{"instance_events.json", "{\"type\":0,\"time\":700000000}\n{\"type\":0,\"time\":600000001}", `line 2: time "600000001": earlier than the event before`},
		{"instance_events.csv", "a,b\n1,2\n", "line 2: the first line does not name the column collection_id"},
		{"instance_events.csv", "collection_id,type\n1\n", "line 2: 1 fields, the first line has 2"},
		{"instance_events.txt", "", "there are no files instance_events*"},
	} {
		if _, err := tracetest.Open(t, Read, tracetest.Write(t, map[string]string{c.name: c.text}), workload.Given{}, workload.Part{}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want %s", c.text, err, c.says)
		}
	}
	if _, err := tracetest.Open(t, Read, "read.go", workload.Given{}, workload.Part{}); err == nil || !strings.Contains(err.Error(), "want the directory") {
		t.Error(err)
	}
}

// inDirectory reads a file as the events of instances, and of collections.
func inDirectory(ext string) tracetest.Reader {
	return func(m *input.Meter, name string, g workload.Given, part workload.Part, to workload.Sink) (workload.About, error) {
		dir := m.Below(filepath.Dir(name))
		file := filepath.Base(name)
		r := &reader{m: m, dir: renamed{dir, file, file + ext}, collections: map[int64]*collection{}}
		return r.all([]string{file + ext}, []string{file + ext}, g, part, to)
	}
}

// renamed has one file under another name.
type renamed struct {
	fs.FS
	file, as string
}

func (r renamed) Open(name string) (fs.File, error) {
	if name == r.as {
		name = r.file
	}
	return r.FS.Open(name)
}

func FuzzJSON(f *testing.F) { tracetest.Fuzz(f, inDirectory(".json"), instances, collections) }

func FuzzCSV(f *testing.F) { tracetest.Fuzz(f, inDirectory(".csv"), more) }
