package swf

import (
	"testing"

	"headrace"
	"headrace/trace/tracetest"
	"headrace/trace/workload"
)

const sample = `; Version: 2.2
; MaxNodes: 4
; MaxProcs: 8
; MaxMemory: 1048576
; UnixStartTime: 1000000000
; Note: invented

  1    0  10  100   2  -1  2048   2  200  -1  1   7  1  1  3  1 -1 -1
  2   50   0   60  -1  -1  -1     1   60 4096  0   8  1  1 -1  1  1  5
  3   60  -1   -1  -1  -1  -1     4   60  -1  5   8  1  1  3  1 -1 -1
  4   70   5  20.5  1  0.5 -1    -1   60  -1  5  -1  1  1  3  1 99 -1
  5   80   5   10   1  -1  -1    -1   60  -1  2   8  1  1  3  1 -1 -1
  4   90   5   10  -1  -1  -1    -1   60  -1  1   8  1  1  3  1 -1 -1 {12,13} q_1d 1:ppn=1
`

func TestRead(t *testing.T) {
	w, err := tracetest.Text(t, Read, sample, workload.Given{Priorities: map[string]headrace.Priority{"3": 9}})
	if err != nil {
		t.Fatal(err)
	}
	tracetest.Same(t, w, `
1/0 at 0s for 1m40s priority 9, 1 cpus, 2 MiB, 7, stage 0, gang 1
1/1 at 0s for 1m40s priority 9, 1 cpus, 2 MiB, 7, stage 0, gang 1
2/0 at 50s for 1m0s priority 4, 1 cpus, 4 MiB, 8, stage 1 after [0]
4/0 at 1m10s for 20.5s priority 9, 1 cpus, 1024 MiB
4#2/0 at 1m30s for 10s priority 9, 1 cpus, 1024 MiB, 8
`, "the log begins at 2001-09-09 01:46:40 UTC", "1 jobs were cancelled before they ran", "1 lines have more than 18 fields", "1 lines are of parts", "1 jobs do not say how many processors",
		"2 jobs do not say what memory", "1 jobs come after one that is not before them")
	if w.Cluster != (workload.Cluster{Nodes: 4, CPUs: 2, Memory: 1 << 30}) {
		t.Errorf("%+v", w.Cluster)
	}
}

func TestReadRefuses(t *testing.T) {
	tracetest.Refused(t, Read, map[string]string{
		"1 2 3\n": "line 1: 3 fields, want 18 with spaces between them",
		"; x\n1 x 0 1 1 -1 -1 -1 -1 -1 1 1 1 1 1 1 -1 -1\n":  `line 2: submit time "x": want a number, -1 where it is not known`,
		"1 NaN 0 1 1 -1 -1 -1 -1 -1 1 1 1 1 1 1 -1 -1\n":     `line 1: submit time "NaN": want a number`,
		"1 9e14 0 1 1 -1 -1 -1 -1 -1 1 1 1 1 1 1 -1 -1\n":    `line 1: submit time "9e14": more than`,
		"1 0 0 1 2000000 -1 -1 -1 -1 -1 1 1 1 1 1 1 -1 -1\n": `line 1: allocated processors "2000000": more than 1000000`,
		"1 0 0 1 20000 -1 -1 -1 -1 -1 1 1 1 1 1 1 -1 -1\n":   "there are more than 10000 tasks",
		"; only a header\n": "no tasks",
	})
}

func FuzzRead(f *testing.F) {
	tracetest.Fuzz(f, Read, sample, "1 0 0 1 1 -1 -1 -1 -1 -1 1 1 1 1 1 1 1 -1\n")
}

// TestReadUnderstands: a log with times since 1970, memory in bytes, and another meaning of
// the field for the preceding job.
func TestReadUnderstands(t *testing.T) {
	w, err := tracetest.Text(t, Read, `1 1356996147 0 10 1 -1 -1 1 -1 2147483648 1 7 1 1 -1 1 1 1
2 1356996150 0 10 1 -1 -1 1 -1 4294967296 1 7 1 1 -1 1 1 1
3 1356996149 0 10 1 -1 -1 1 -1 4294967296 1 7 1 1 -1 1 1 1
4 1356996160 0 10 1 -1 -1 1 -1 1048576 1 7 1 1 -1 1 -1 1
`, workload.Given{})
	if err != nil {
		t.Fatal(err)
	}
	tracetest.Same(t, w, `
1/0 at 0s for 10s priority 4, 1 cpus, 2048 MiB, 7
3/0 at 2s for 10s priority 4, 1 cpus, 4096 MiB, 7
2/0 at 3s for 10s priority 4, 1 cpus, 4096 MiB, 7
4/0 at 13s for 10s priority 4, 1 cpus, 1 MiB, 7
`, "times are since 1970: taken to be since the first job, which was submitted at 2012-12-31 23:22:27 UTC",
		"the numbers are taken to be bytes, not KB", "most jobs name job 1 as the preceding one")
}
