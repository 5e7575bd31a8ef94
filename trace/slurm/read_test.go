package slurm

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"headrace"
	"headrace/trace/tracetest"
	"headrace/trace/workload"
)

const sample = `JobID|JobName|User|Account|Partition|QOS|Priority|Submit|Start|End|Elapsed|NCPUS|NNodes|NTasks|ReqMem|MaxRSS|ReqTRES|AllocTRES|State
100|train|ann|lab|gpu|high|4294|2026-01-02T03:00:00|2026-01-02T03:00:05|2026-01-02T04:00:05|01:00:00|8|2||16G||cpu=8|cpu=8,mem=16G,node=2,gres/gpu=4,gres/gpu:a100=4|COMPLETED
100.batch|batch||lab||||2026-01-02T03:00:05|2026-01-02T03:00:05|2026-01-02T04:00:05|01:00:00|4|1|1||2000K|||COMPLETED
100.0|train||lab||||2026-01-02T03:00:05|2026-01-02T03:00:05|2026-01-02T04:00:05|01:00:00|8|2|2||3000K|||COMPLETED
12_3|sweep|bob|lab|cpu|normal|1|2026-01-02T03:01:00|2026-01-02T03:02:00|2026-01-03T05:05:04|1-02:03:04|2|1||4000Mc||||FAILED
12_4|sweep|bob|lab|cpu|normal|1|2026-01-02T03:01:00|2026-01-02T03:02:00|Unknown|00:10.500|2|1||4Gn||||RUNNING
12_[5-9]|sweep|bob|lab|cpu|normal|1|2026-01-02T03:01:00|Unknown|Unknown|00:00:00|2|1||4Gn||||PENDING
13|late|bob|lab|cpu|normal|1|2026-01-02T03:01:00|None|2026-01-02T03:02:00|00:00:00|2|0||4Gn||||CANCELLED by 1000
13.extern|extern||lab|||1|2026-01-02T03:01:00|None|2026-01-02T03:02:00|00:00:00|2|0|||9G|||CANCELLED
14||carl|lab|cpu|normal|1|2026-01-02T02:59:00|2026-01-02T03:02:00|2026-01-02T03:02:00|00:01:00|1|1||0||||COMPLETED
14.extern|||lab|||||||00:01:00|1|1|||1024K|||COMPLETED
15||carl|lab|cpu|normal|1|2026-01-02T03:03:00|2026-01-02T03:03:00||00:01:00|1|1||||gres/fpga:x=1,gres/fpga:y=2||PREEMPTED
`

func TestRead(t *testing.T) {
	w, err := tracetest.Text(t, Read, sample, workload.Given{Priorities: map[string]headrace.Priority{"high": 10, "cpu": 1}})
	if err != nil {
		t.Fatal(err)
	}
	tracetest.Same(t, w, `
14/0 at 0s for 1m0s priority 1, 1 cpus, 1 MiB, carl
100:train/0 at 1m0s for 1h0m0s priority 10, 4 cpus, 8192 MiB, ann, 2 gpu, gang 1
100:train/1 at 1m0s for 1h0m0s priority 10, 4 cpus, 8192 MiB, ann, 2 gpu, gang 1
12:sweep/0 at 2m0s for 26h3m4s priority 1, 2 cpus, 8000 MiB, bob
12:sweep/1 at 2m0s for 10.5s priority 1, 2 cpus, 4096 MiB, bob
15/0 at 4m0s for 1m0s priority 1, 1 cpus, 1024 MiB, carl, 3 fpga
`, "2 jobs never ran", "1 jobs were still running", "1 jobs failed", "1 jobs were preempted", "2 jobs do not say what memory")
}

// TestRequeued: of the runs of a job that was ended and queued again (sacct -D), the last one counts, from the
// first submission.
func TestRequeued(t *testing.T) {
	w, err := tracetest.Text(t, Read, `JobID|Submit|Start|Elapsed|NCPUS|NNodes|ReqMem|State
7|2026-01-02T03:00:00|2026-01-02T03:00:00|03:00:00|1|1|1G|PREEMPTED
7.batch|2026-01-02T03:00:00|2026-01-02T03:00:00|03:00:00|1|1||CANCELLED
8|2026-01-02T03:00:00|2026-01-02T03:00:00|01:00:00|1|1|1G|NODE_FAIL
7|2026-01-02T06:00:00|2026-01-02T06:10:00|02:00:00|1|1|1G|PREEMPTED
9|2026-01-02T03:00:00|2026-01-02T03:00:00|00:30:00|4|2|1G|REQUEUED
8|2026-01-02T03:00:00|2026-01-02T04:10:00|04:00:00|1|1|1G|COMPLETED
7|2026-01-02T08:10:00|2026-01-02T09:00:00|05:00:00|1|1|1G|COMPLETED
9|2026-01-02T03:30:00|Unknown|00:00:00|4|2|1G|PENDING
`, workload.Given{})
	if err != nil {
		t.Fatal(err)
	}
	tracetest.Same(t, w, `
8/0 at 0s for 4h0m0s priority 4, 1 cpus, 1024 MiB
7/0 at 0s for 5h0m0s priority 4, 1 cpus, 1024 MiB
9/0 at 0s for 30m0s priority 4, 2 cpus, 512 MiB, gang 1
9/1 at 0s for 30m0s priority 4, 2 cpus, 512 MiB, gang 1
`, "1 jobs never ran", "1 jobs were preempted and are not in the list again")
}

// TestEligible: a job that was kept back is submitted when it could run, if the list says when that was.
func TestEligible(t *testing.T) {
	const head, want = "JobID|Submit|Start|Elapsed|Eligible|ReqMem|State\n", "/0 at %s for 1h0m0s priority 4, 1 cpus, 1024 MiB\n"
	w, err := tracetest.Text(t, Read, head+`1|2026-01-02T03:00:00|2026-01-02T03:00:00|01:00:00|2026-01-02T03:00:00|1G|COMPLETED
2|2026-01-02T03:00:00|2026-01-02T04:00:10|01:00:00|2026-01-02T04:00:00|1G|COMPLETED
3|2026-01-02T03:00:00|2026-01-02T05:00:20|01:00:00|2026-01-02T05:00:10|1G|COMPLETED
4|2026-01-02T03:30:00|2026-01-02T03:40:00|01:00:00|Unknown|1G|COMPLETED
5|2026-01-02T03:30:00|2026-01-02T03:40:00|01:00:00|2026-01-02T09:40:00|1G|COMPLETED
`, workload.Given{})
	if err != nil {
		t.Fatal(err)
	}
	tracetest.Same(t, w, fmt.Sprintf("1"+want+"4"+want+"5"+want+"2"+want+"3"+want, "0s", "30m0s", "40m0s", "1h0m0s", "2h0m10s"))
	if strings.Contains(strings.Join(w.Notes, "\n"), "no column Eligible") {
		t.Error(w.Notes)
	}
	if w, err = tracetest.Text(t, Read, strings.Replace(head, "Eligible", "Other", 1)+"1|2026-01-02T03:00:00|2026-01-02T03:00:00|01:00:00||1G|COMPLETED\n", workload.Given{}); err != nil {
		t.Fatal(err)
	}
	tracetest.Same(t, w, fmt.Sprintf("1"+want, "0s"), "there is no column Eligible")
}

// TestHeterogeneous: the parts of a job run together or not at all.
func TestHeterogeneous(t *testing.T) {
	w, err := tracetest.Text(t, Read, `JobID|JobName|Submit|Start|Elapsed|NCPUS|NNodes|ReqMem|MaxRSS|State
100+0|sim|2026-01-02T03:00:00|2026-01-02T03:01:00|01:00:00|8|1|0||COMPLETED
100+0.batch|batch|2026-01-02T03:01:00|2026-01-02T03:01:00|01:00:00|8|1||2G|COMPLETED
100+1|sim|2026-01-02T03:00:00|2026-01-02T03:01:00|00:30:00|4|2|2G||COMPLETED
101+0|one|2026-01-02T03:00:00|2026-01-02T03:01:00|01:00:00|1|1|1G||COMPLETED
101+1|one|2026-01-02T03:00:00|None|00:00:00|1|1|1G||CANCELLED
102+0|again|2026-01-02T03:00:00|2026-01-02T03:01:00|00:02:00|1|1|1G||PREEMPTED
102+1|again|2026-01-02T03:00:00|2026-01-02T03:01:00|00:02:00|1|1|1G||PREEMPTED
`, workload.Given{})
	if err != nil {
		t.Fatal(err)
	}
	tracetest.Same(t, w, `
100:sim/0 at 0s for 1h0m0s priority 4, 8 cpus, 2048 MiB, gang 1
100:sim/1 at 0s for 30m0s priority 4, 2 cpus, 1024 MiB, gang 1
100:sim/2 at 0s for 30m0s priority 4, 2 cpus, 1024 MiB, gang 1
101:one/0 at 0s for 1h0m0s priority 4, 1 cpus, 1024 MiB
102:again/0 at 0s for 2m0s priority 4, 1 cpus, 1024 MiB, gang 2
102:again/1 at 0s for 2m0s priority 4, 1 cpus, 1024 MiB, gang 2
`, "1 jobs never ran", "2 jobs were preempted and are not in the list again")
}

// TestNames: whatever users call their jobs, all other jobs are read.
func TestNames(t *testing.T) {
	const head = "JobID|Submit|Start|Elapsed|JobName|User|NCPUS|ReqMem|State\n"
	row := func(id, name string) string {
		return id + "|2026-01-02T03:00:00|2026-01-02T03:00:00|01:00:00|" + name + "|ann|2|1G|COMPLETED\n"
	}
	const as = "/0 at 0s for 1h0m0s priority 4, 2 cpus, 1024 MiB, ann\n"
	w, err := tracetest.Text(t, Read, head+row("1", "a")+row("8", "a|b")+row("9", "||")+row("10", "a\nb\n\nc")+row("11", "a\nb|c")+row("12", "d"), workload.Given{})
	if err != nil {
		t.Fatal(err)
	}
	tracetest.Same(t, w, "1:a"+as+"8:a|b"+as+"9:||"+as+"10:a b c"+as+"12:d"+as,
		"3 rows have the separator or the end of a line in the name of their job", "2 lines have too few fields for a row")
	// What is no such table is refused all the same.
	if _, err := tracetest.Text(t, Read, head+row("1", "a")+strings.Repeat("1|2026-01-02T03:00:00|1\n", 20), workload.Given{}); err == nil ||
		!strings.Contains(err.Error(), "3 fields, the first line has 9") {
		t.Error(err)
	}
}

// TestWindow: a job that was submitted long before the list begins does not stretch the time of the others.
func TestWindow(t *testing.T) {
	rows := "JobID|Submit|Start|Elapsed|NCPUS|ReqMem|State\n"
	day := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	const form = "2006-01-02T15:04:05"
	for i := range 97 {
		at := day.Add(time.Duration(i) * 15 * time.Minute).Format(form)
		rows += fmt.Sprintf("%d|%s|%s|00:10:00|1|1G|COMPLETED\n", i+1, at, at)
	}
	plain, err := tracetest.Text(t, Read, rows, workload.Given{})
	if err != nil {
		t.Fatal(err)
	}
	rows += fmt.Sprintf("0|%s|%s|00:20:00|1|1G|COMPLETED\n", day.AddDate(0, 0, -60).Format(form), day.Add(time.Hour).Format(form))
	rows += fmt.Sprintf("200|%s|%s|2-00:20:00|1|1G|COMPLETED\n", day.AddDate(0, 0, -3).Format(form), day.Add(-48*time.Hour).Format(form))
	w, err := tracetest.Text(t, Read, rows, workload.Given{})
	if err != nil {
		t.Fatal(err)
	}
	if had, got := plain.Load(), w.Load(); math.Abs(got-had) > had/20 {
		t.Errorf("they ask for %v CPUs, want about %v", got, had)
	}
	notes := strings.Join(w.Notes, "\n")
	if !strings.Contains(notes, "before, 60.0 days, little was submitted") || !strings.Contains(notes, "the 3 tasks of then are submitted at 0") {
		t.Error(notes)
	}
	if notes := strings.Join(plain.Notes, "\n"); strings.Contains(notes, "time begins") || plain.Tasks[0].Run != 10*time.Minute {
		t.Errorf("of a whole record: %s, %+v", notes, plain.Tasks[0])
	}
}

func TestReadRefuses(t *testing.T) {
	const head = "JobID|Submit|Start|Elapsed|NCPUS|ReqMem|AllocTRES\n"
	tracetest.Refused(t, Read, map[string]string{
		"a,b\n1,2\n":   "line 2: the first line does not name the columns JobID, Submit and Elapsed: want what sacct --parsable2 --format=",
		head + "1|x\n": "line 2: 2 fields, the first line has 7",
		head + "1|x|2026-01-02T03:04:05|00:01|1|1G|\n":                    `line 2: Submit "x": want a time such as 2026-01-02T15:04:05`,
		head + "1|2026-01-02T03:04:05|x|00:01|1|1G|\n":                    `line 2: Start "x": want a time`,
		head + "1|9999999999|9999999999|00:01|1|1G|\n":                    `line 2: Start "9999999999": want a time`,
		head + "1|2026-01-02T03:04:05|2026-01-02T03:04:05|1|1|1G|\n":      `line 2: Elapsed "1": want a time such as 1-02:03:04`,
		head + "1|2026-01-02T03:04:05|2026-01-02T03:04:05|0:1|x|1G|\n":    `line 2: NCPUS "x": want a whole number, at most 1000000`,
		head + "1|2026-01-02T03:04:05|2026-01-02T03:04:05|0:1|1|1X|\n":    `line 2: ReqMem "1X": want a size such as 4000M`,
		head + "1|2026-01-02T03:04:05|2026-01-02T03:04:05|0:1|1|1G|gpu\n": `line 2: AllocTRES "gpu": want a list such as cpu=4`,
		head: "no tasks",
	})
}

func TestParseElapsed(t *testing.T) {
	for text, want := range map[string]time.Duration{"00:00": 0, "01:02": 62 * time.Second, "10:01:02": 10*time.Hour + 62*time.Second, "2-00:00:01": 48*time.Hour + time.Second,
		"00:01.250": 1250 * time.Millisecond} {
		if got, err := parseElapsed(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "1", "1-01:02", "1:2:3:4", "-1:00", "1-", "a:b", "1e3:00"} {
		if got, err := parseElapsed(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func FuzzRead(f *testing.F) {
	tracetest.Fuzz(f, Read, sample, "JobID|Submit|Start|End|NCPUS|NNodes\n1|5|5|9|2K|2\n")
}
