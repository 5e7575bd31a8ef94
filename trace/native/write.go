package native

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"headrace/trace/input"
	"headrace/trace/workload"
)

// csvColumns are the columns of a workload in CSV, in the order in which Write
// writes them. See docs/traces.md.
var csvColumns = [...]string{"job", "task", "submit_s", "run_s", "priority", "class", "cpus", "memory_bytes", "grow_s",
	"dirty_bytes_per_s", "file", "offset", "input_bytes", "file_bytes", "preempted", "lost_s",
	"user", "stage", "after", "gang"}

// csvNeed is what the name of a column for a counted resource begins with.
const csvNeed = "need."

const (
	csvJob = iota
	csvTask
	csvSubmit
	csvRun
	csvPriority
	csvClass
	csvCPUs
	csvMemory
	csvGrow
	csvDirty
	csvFile
	csvOffset
	csvInput
	csvFileBytes
	csvPreempted
	csvLost
	csvUser
	csvStage
	csvAfter
	csvGang
)

// Write writes a workload: a header and a line for each task, in order. The
// columns preempted and lost_s are there if the workload is Recorded, those of files,
// users, counted resources, stages and gangs if it has any. Open makes the same Jobs, Files, Tasks and Recorded of it,
// exactly, if every job and every file has a task, they are numbered in the order of
// their first tasks (as Open numbers them), and no two have the same name. Two jobs
// of one name are an error, as are two files. Name, Cluster, Outcome and Notes are not
// written.
func Write(w io.Writer, workload *workload.Workload) error {
	if err := unique("jobs", len(workload.Jobs), func(i int) string { return workload.Jobs[i] }); err != nil {
		return err
	}
	if err := unique("files", len(workload.Files), func(i int) string { return workload.Files[i].Name }); err != nil {
		return err
	}
	if err := unique("users", len(workload.Users), func(i int) string { return workload.Users[i] }); err != nil {
		return err
	}
	if err := unique("resources", len(workload.Resources), func(i int) string { return workload.Resources[i] }); err != nil {
		return err
	}
	columns := csvUsed(workload)
	out := csv.NewWriter(w)
	fields := make([]string, 0, len(csvColumns))
	for _, c := range columns {
		fields = append(fields, csvColumns[c])
	}
	for _, resource := range workload.Resources {
		fields = append(fields, csvNeed+resource)
	}
	if err := out.Write(fields); err != nil {
		return err
	}
	for i := range workload.Tasks {
		t := &workload.Tasks[i]
		fields = fields[:0]
		for _, c := range columns {
			fields = append(fields, csvField(workload, t, c))
		}
		for r := range workload.Resources {
			text := ""
			if t.Need > 0 && workload.Needs[t.Need-1][r] != 0 {
				text = csvFloat(workload.Needs[t.Need-1][r])
			}
			fields = append(fields, text)
		}
		if err := out.Write(fields); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// csvUsed returns the columns that a workload needs.
func csvUsed(w *workload.Workload) []int {
	var used []int
	gangs := slices.ContainsFunc(w.Tasks, func(t workload.Task) bool { return t.Gang != 0 })
	unused := map[int]bool{csvPreempted: !w.Recorded, csvLost: !w.Recorded, csvUser: len(w.Users) == 0,
		csvStage: len(w.Stages) == 0, csvAfter: len(w.Stages) == 0, csvGang: !gangs}
	for c := range csvColumns {
		files := c >= csvFile && c <= csvFileBytes
		if files && len(w.Files) == 0 || unused[c] {
			continue
		}
		used = append(used, c)
	}
	return used
}

func csvField(w *workload.Workload, t *workload.Task, column int) string {
	switch column {
	case csvJob:
		return w.Jobs[t.Job]
	case csvTask:
		return strconv.Itoa(int(t.Index))
	case csvSubmit:
		return csvSeconds(t.Submit)
	case csvRun:
		return csvSeconds(t.Run)
	case csvPriority:
		return strconv.Itoa(int(t.Priority))
	case csvClass:
		return strconv.Itoa(int(t.Class))
	case csvCPUs:
		return csvFloat(t.CPUs)
	case csvMemory:
		return strconv.FormatInt(t.Memory, 10)
	case csvGrow:
		return csvFloat(t.Grow)
	case csvDirty:
		return csvFloat(t.Dirty)
	case csvPreempted:
		return strconv.Itoa(int(t.Preempted))
	case csvLost:
		return csvSeconds(t.Lost)
	}
	switch {
	case column == csvUser && t.User > 0:
		return w.Users[t.User-1]
	case column == csvStage && t.Stage > 0:
		return strconv.Itoa(int(t.Stage))
	case column == csvAfter && t.Stage > 0:
		var b []byte
		for i, a := range w.Stages[t.Stage-1].After {
			if i > 0 {
				b = append(b, ' ')
			}
			b = strconv.AppendInt(b, int64(a)+1, 10)
		}
		return string(b)
	case column == csvGang && t.Gang > 0:
		return strconv.Itoa(int(t.Gang))
	case t.File == 0 || column >= csvUser:
		return ""
	}
	switch column {
	case csvFile:
		return w.Files[t.File-1].Name
	case csvOffset:
		return strconv.FormatInt(t.Offset, 10)
	case csvInput:
		return strconv.FormatInt(t.Input, 10)
	}
	return strconv.FormatInt(w.Files[t.File-1].Bytes, 10)
}

func csvFloat(v float32) string { return strconv.FormatFloat(float64(v), 'g', -1, 32) }

// csvSeconds returns a time that is not negative, to the nanosecond, without needless
// zeros.
func csvSeconds(d time.Duration) string {
	whole, rest := strconv.FormatInt(int64(d/time.Second), 10), int64(d%time.Second)
	if rest == 0 {
		return whole
	}
	return whole + strings.TrimRight(fmt.Sprintf(".%09d", rest), "0")
}

// parseSeconds returns a time of decimal digits, to the nanosecond; with more digits, or an
// exponent, it is rounded to that.
func parseSeconds(s string) (time.Duration, error) {
	tooLong := fmt.Errorf("more than %d", math.MaxInt64/int64(time.Second))
	if strings.ContainsAny(s, "eE") {
		v, ok := plainFloat(s)
		switch ns := math.Round(v * 1e9); {
		case !ok:
			return 0, errSeconds
		case !(ns < math.MaxInt64):
			return 0, tooLong
		default:
			return time.Duration(ns), nil
		}
	}
	whole, rest, point := strings.Cut(s, ".")
	if !input.Digits(whole) || point && !input.Digits(rest) {
		return 0, errSeconds
	}
	v, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || v > math.MaxInt64/int64(time.Second) {
		return 0, tooLong
	}
	part, _ := strconv.ParseInt((rest + "000000000")[:9], 10, 64)
	if len(rest) > 9 && rest[9] >= '5' {
		part++
	}
	if d := time.Duration(v)*time.Second + time.Duration(part); d >= 0 {
		return d, nil
	}
	return 0, tooLong
}

// plainFloat reads a number of decimal digits, 0 or more, maybe with an exponent.
func plainFloat(s string) (float64, bool) {
	if strings.Trim(s, "0123456789.eE+-") != "" {
		return 0, false
	}
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil && v >= 0
}

// unique refuses names that are not.
func unique(what string, n int, name func(int) string) error {
	seen := make(map[string]bool, n)
	for i := range n {
		switch s := name(i); {
		case s == "":
			return fmt.Errorf("trace: one of the %s has no name: CSV tells them apart by it", what)
		case !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl):
			return fmt.Errorf("trace: the name %q, of one of the %s, has what is no text in it", s, what)
		case seen[s]:
			return fmt.Errorf("trace: two %s are called %q: CSV tells them apart by their names", what, s)
		default:
			seen[s] = true
		}
	}
	return nil
}
