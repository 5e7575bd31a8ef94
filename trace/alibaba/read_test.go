package alibaba

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"slices"
	"strings"
	"testing"

	"headrace/trace/input"
	"headrace/trace/tracetest"
	"headrace/trace/workload"
)

const tasks = `M1,2,j_1,1,Terminated,1000,1010,100,0.5
R2_1,1,j_1,1,Terminated,1010,1030,50,1
J3_1_2_9,1,j_1,1,Running,1030,1035,100,101
task_Nzg3==,1,j_2,2,Failed,900,905,,
M1,1,j_3,1,Waiting,0,0,100,1
`

const instances = `ins_1,M1,j_1,1,Terminated,1000,1004,m_1,1,1,50,60,0.1,0.2
ins_2,M1,j_1,1,Failed,1000,1001,m_1,1,2,,,,
ins_2,M1,j_1,1,Terminated,1001,1010,m_1,2,2,,,,
ins_3,M1,j_1,1,Terminated,1001,1010,m_1,2,2,,,,
ins_4,R2_1,j_1,1,Running,1010,0,m_1,1,1,,,,
ins_5,M9,j_9,1,Running,1010,0,m_1,1,1,,,,
`

const want = `
j_2/0 at 15m0s for 5s priority 4, 1 cpus, 1024 MiB
j_1/0 at 16m40s for 10s priority 4, 1 cpus, 512 MiB, stage 0
j_1/1 at 16m40s for 10s priority 4, 1 cpus, 512 MiB, stage 0
j_1/2 at 16m40s for 20s priority 4, 0.5 cpus, 1024 MiB, stage 1 after [0]
j_1/3 at 16m40s for 5s priority 4, 1 cpus, 1024 MiB, stage 2 after [0 1]
`

var given = workload.Given{Memory: 100 << 30}

func TestRead(t *testing.T) {
	w, err := tracetest.Open(t, Read, tracetest.Write(t, map[string]string{"batch_task.csv": tasks}), given, workload.Part{})
	if err != nil {
		t.Fatal(err)
	}
	tracetest.Same(t, w, want, "taken to have 100 GiB", "1 tasks do not say when", "2 tasks failed", "2 tasks do not say what they ask for", "1 dependencies")
}

func TestReadInstances(t *testing.T) {
	w, err := tracetest.Open(t, Read, tracetest.Write(t, map[string]string{"batch_task.csv": tasks, "batch_instance.csv": instances}), given, workload.Part{})
	if err != nil {
		t.Fatal(err)
	}
	tracetest.Same(t, w, `
j_2/0 at 15m0s for 5s priority 4, 1 cpus, 1024 MiB
j_1/0 at 16m40s for 4s priority 4, 1 cpus, 512 MiB, stage 0
j_1/2 at 16m40s for 20s priority 4, 0.5 cpus, 1024 MiB, stage 1 after [0]
j_1/3 at 16m40s for 5s priority 4, 1 cpus, 1024 MiB, stage 2 after [0 1]
j_1/1 at 16m41s for 9s priority 4, 1 cpus, 512 MiB, stage 0
`, "1 instances are of tasks that are not there", "3 instances have no line")
}

// The lines of the files as published: job_name comes before task_type. Jobs are told apart, and tasks of the
// same name in them.
func TestReadJobs(t *testing.T) {
	w, err := tracetest.Open(t, Read, tracetest.Write(t, map[string]string{
		"batch_task.csv": `M1,2,j_1,1,Terminated,1000,1010,100,1
M1,1,j_2,1,Terminated,2000,2010,100,1
R2_1,1,j_2,1,Terminated,2010,2030,100,1
`,
		"batch_instance.csv": `ins_1,M1,j_1,1,Terminated,1000,1003,m_1,1,1,50,60,0.1,0.2
ins_2,M1,j_1,1,Terminated,1000,1004,m_1,1,1,50,60,0.1,0.2
ins_3,M1,j_2,1,Terminated,2000,2007,m_1,1,1,50,60,0.1,0.2
`}), given, workload.Part{})
	if err != nil {
		t.Fatal(err)
	}
	tracetest.Same(t, w, `
j_1/0 at 16m40s for 3s priority 4, 1 cpus, 1024 MiB
j_1/1 at 16m40s for 4s priority 4, 1 cpus, 1024 MiB
j_2/0 at 33m20s for 7s priority 4, 1 cpus, 1024 MiB, stage 0
j_2/1 at 33m20s for 20s priority 4, 1 cpus, 1024 MiB, stage 1 after [0]
`)
}

// A task whose dependencies are left out waits for nobody, and was submitted when it began.
func TestReadWithoutItsDependencies(t *testing.T) {
	text := "M1,1,j,1,Terminated,1000,1010,100,1\nR2_7,1,j,1,Terminated,5000,5010,100,1\nR3_4,1,j,1,Terminated,6000,6010,100,1\nM4,1,j,1,Terminated,6005,6010,100,1\n"
	w, err := tracetest.Open(t, Read, tracetest.Write(t, map[string]string{"batch_task.csv": text}), given, workload.Part{})
	if err != nil {
		t.Fatal(err)
	}
	tracetest.Same(t, w, `
j/0 at 16m40s for 10s priority 4, 1 cpus, 1024 MiB
j/1 at 1h23m20s for 10s priority 4, 1 cpus, 1024 MiB
j/2 at 1h40m0s for 10s priority 4, 1 cpus, 1024 MiB
j/3 at 1h40m5s for 5s priority 4, 1 cpus, 1024 MiB
`, "2 dependencies")
}

// The archives as published.
func TestReadArchive(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	archive := tar.NewWriter(z)
	for _, f := range []struct{ name, text string }{{"./README", "x"}, {"./batch_task.csv", tasks}} {
		archive.WriteHeader(&tar.Header{Name: f.name, Mode: 0o600, Size: int64(len(f.text))})
		archive.Write([]byte(f.text))
	}
	archive.Close()
	z.Close()
	w, err := tracetest.Open(t, Read, tracetest.Write(t, map[string]string{"batch_task.tar.gz": b.String()}), given, workload.Part{})
	if err != nil {
		t.Fatal(err)
	}
	tracetest.Same(t, w, want)
}

func TestGraph(t *testing.T) {
	for name, want := range map[string]struct {
		number int
		after  []int
	}{"M1": {1, nil}, "R4_2_3": {4, []int{2, 3}}, "J3_1_Stg2": {3, []int{1}}, "task_Nzg3ODAw==": {}, "MergeTask": {}, "": {}, "1_2": {}, "M2_2": {2, nil}, "M1234567": {}} {
		if number, after := graph(name); number != want.number || !slices.Equal(after, want.after) {
			t.Errorf("%s: %d %v", name, number, after)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for _, c := range []struct {
		files map[string]string
		says  string
	}{
		{map[string]string{"x": ""}, "there is no batch_task.csv"},
		{map[string]string{"batch_task.csv": "M1,2\n"}, "batch_task.csv: trace: line 1: 2 fields, want 9, separated by commas"},
		{map[string]string{"batch_task.csv": "M1,x,j,1,Terminated,1,2,100,1\n"}, `line 1: instance_num "x": want a number, at most 1000000`},
		{map[string]string{"batch_task.csv": "M1,1,1,j_1,Terminated,1,2,100,1\n"}, `line 1: job_name "1": want the job here, such as j_1, and its type in the next field`},
		{map[string]string{"batch_task.csv": "M1,1,j,1,Terminated,1,1e99,100,1\n"}, `line 1: end_time "1e99": want a number`},
		{map[string]string{"batch_task.csv": "M1,1,j,1,Terminated,1,9999999999,100,1\n"}, `line 1: end_time "9999999999": want a number, at most 4611686018`},
		{map[string]string{"batch_task.csv": "M1,20000,j,1,Terminated,1,2,100,1\n"}, "there are more than 10000 tasks"},
		{map[string]string{"batch_task.csv": tasks, "batch_instance.csv": "a,b\n"}, "batch_instance.csv: trace: line 1: 2 fields, want 14"},
		{map[string]string{"batch_task.tar": strings.Repeat("\x00", 1024)}, "batch_task.tar: there is no batch_task.csv in it"},
	} {
		if _, err := tracetest.Open(t, Read, tracetest.Write(t, c.files), given, workload.Part{}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v; want %s", c.files, err, c.says)
		}
	}
	if _, err := tracetest.Open(t, Read, "read.go", given, workload.Part{}); err == nil || !strings.Contains(err.Error(), "want the directory") {
		t.Error(err)
	}
}

// FuzzRead reads the same text as both tables, as far as it is one.
func FuzzRead(f *testing.F) {
	tracetest.Fuzz(f, func(m *input.Meter, name string, g workload.Given, part workload.Part, to workload.Sink) (a workload.About, err error) {
		r := newReader(m, g, part, to)
		if err := m.WithFile(name, r.readTasks); err != nil {
			return a, err
		}
		r.stages()
		return a, r.rest(false)
	}, tasks, "M1,1,j,1,Terminated,5,6,1,1\nM2_1,1,j,1,Terminated,5,6,1,1\nM1_2,1,j,1,Terminated,5,6,1,1\n")
}
