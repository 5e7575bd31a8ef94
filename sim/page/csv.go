package page

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"headrace"
	"headrace/sim"
)

// WriteCSV writes a line for each result, below a line with the names of the
// columns, which do not change. Times are seconds, sizes bytes, shares 0 to 1. What
// there is not is an empty field. The columns:
//
//	workload, policy, medium, uses_medium, nodes, seed, jobs, tasks, makespan_s
//	useful_core_h, killed_core_h, dump_core_h, restore_core_h, page_in_core_h,
//	stop_core_h, reading_core_h, wasted_core_h, waste_share
//	energy_kwh, idle_kwh, utilisation, energy_to_reference
//	dumped_bytes, restored_bytes, moved_bytes, paged_out_bytes, paged_in_bytes,
//	store_busy_share, store_peak_bytes
//	decisions, starts, kills, suspends, checkpoints, incremental, no_room, withdrawn,
//	resumes, restores, remote, preempted_share, preemptions_per_task
//	read_bytes, from_memory_bytes, warmed_bytes, remote_read_bytes, read_mean_s
//
// and for each band (free, middle, production):
//
//	BAND_jobs, BAND_tasks, BAND_response_mean_s, BAND_response_p50_s,
//	BAND_response_p95_s, BAND_response_to_reference, BAND_task_response_mean_s,
//	BAND_slowdown_mean, BAND_wasted_core_h
func WriteCSV(w io.Writer, results []*sim.Result) error {
	s := newSet(results)
	fields := s.fields()
	head := make([]string, len(fields))
	for i, f := range fields {
		head[i] = f.name
	}
	rows := [][]string{head}
	for _, r := range given(results) {
		row := make([]string, len(fields))
		for i, f := range fields {
			row[i] = f.of(r)
		}
		rows = append(rows, row)
	}
	return writeRows(w, rows)
}

func writeRows(w io.Writer, rows [][]string) error {
	if err := csv.NewWriter(w).WriteAll(rows); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return nil
}

// given returns the results that there are.
func given(results []*sim.Result) []*sim.Result {
	return slices.DeleteFunc(slices.Clone(results), func(r *sim.Result) bool { return r == nil })
}

// A field is one column of a file.
type field struct {
	name string
	of   func(*sim.Result) string
}

// exact writes a number so that it can be read again, nothing for what is not
// finite.
func exact(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

func number(name string, of func(*sim.Result) float64) field {
	return field{name, func(r *sim.Result) string { return exact(of(r)) }}
}

func (s set) fields() []field {
	fields := []field{
		{"workload", func(r *sim.Result) string { return r.Workload }},
		{"policy", func(r *sim.Result) string { return string(r.Policy) }},
		{"medium", func(r *sim.Result) string { return r.Medium }},
		{"uses_medium", func(r *sim.Result) string { return strconv.FormatBool(r.UsesMedium) }},
		{"nodes", func(r *sim.Result) string { return strconv.Itoa(r.Config.Nodes) }},
		{"seed", func(r *sim.Result) string { return strconv.FormatUint(r.Config.Seed, 10) }},
		{"jobs", func(r *sim.Result) string { return strconv.Itoa(r.Jobs) }},
		{"tasks", func(r *sim.Result) string { return strconv.Itoa(r.Tasks) }},
		number("makespan_s", func(r *sim.Result) float64 { return r.Makespan }),
	}
	fields = append(fields, workFields()...)
	fields = append(fields,
		number("energy_kwh", energy),
		number("idle_kwh", func(r *sim.Result) float64 { return r.Energy.Idle / kilowattHour }),
		number("utilisation", func(r *sim.Result) float64 { return r.Energy.Utilisation }),
		number("energy_to_reference", s.toReference(energy)))
	fields = append(fields, countFields()...)
	for p := headrace.Priority(0); p <= headrace.MaxPriority; p++ {
		if p == 0 || p.Band() != (p-1).Band() {
			fields = append(fields, s.bandFields(p.Band())...)
		}
	}
	return fields
}

func workFields() []field {
	hours := func(name string, of func(sim.Work) float64) field {
		return number(name+"_core_h", func(r *sim.Result) float64 { return of(r.Work) / coreHour })
	}
	return []field{
		hours("useful", func(w sim.Work) float64 { return w.Useful }),
		hours("killed", func(w sim.Work) float64 { return w.Killed }),
		hours("dump", func(w sim.Work) float64 { return w.Dump }),
		hours("restore", func(w sim.Work) float64 { return w.Restore }),
		hours("page_in", func(w sim.Work) float64 { return w.PageIn }),
		hours("stop", func(w sim.Work) float64 { return w.Stop }),
		hours("reading", func(w sim.Work) float64 { return w.Reading }),
		hours("wasted", sim.Work.Wasted),
		number("waste_share", wasteShare),
	}
}

func countFields() []field {
	bytes := func(name string, of func(sim.IO) int64) field {
		return field{name, func(r *sim.Result) string { return strconv.FormatInt(of(r.IO), 10) }}
	}
	counted := func(name string, of func(sim.Counts) int) field {
		return field{name, func(r *sim.Result) string { return strconv.Itoa(of(r.Counts)) }}
	}
	read := func(name string, of func(*sim.ReadingResult) float64) field { return number(name, reading(of)) }
	return []field{
		bytes("dumped_bytes", func(i sim.IO) int64 { return i.Dumped }),
		bytes("restored_bytes", func(i sim.IO) int64 { return i.Restored }),
		bytes("moved_bytes", func(i sim.IO) int64 { return i.Moved }),
		bytes("paged_out_bytes", func(i sim.IO) int64 { return i.PagedOut }),
		bytes("paged_in_bytes", func(i sim.IO) int64 { return i.PagedIn }),
		number("store_busy_share", func(r *sim.Result) float64 { return r.IO.StoreBusy }),
		bytes("store_peak_bytes", func(i sim.IO) int64 { return i.StorePeak }),
		counted("decisions", func(c sim.Counts) int { return c.Decisions }),
		counted("starts", func(c sim.Counts) int { return c.Starts }),
		counted("kills", func(c sim.Counts) int { return c.Kills }),
		counted("suspends", func(c sim.Counts) int { return c.Suspends }),
		counted("checkpoints", func(c sim.Counts) int { return c.Checkpoints }),
		counted("incremental", func(c sim.Counts) int { return c.Incremental }),
		counted("no_room", func(c sim.Counts) int { return c.NoRoom }),
		counted("withdrawn", func(c sim.Counts) int { return c.Withdrawn }),
		counted("resumes", func(c sim.Counts) int { return c.Resumes }),
		counted("restores", func(c sim.Counts) int { return c.Restores }),
		counted("remote", func(c sim.Counts) int { return c.Remote }),
		number("preempted_share", preemptedShare),
		number("preemptions_per_task", perTask),
		read("read_bytes", func(r *sim.ReadingResult) float64 { return float64(r.Bytes) }),
		read("from_memory_bytes", func(r *sim.ReadingResult) float64 { return float64(r.FromMemory) }),
		read("warmed_bytes", func(r *sim.ReadingResult) float64 { return float64(r.Warmed) }),
		read("remote_read_bytes", func(r *sim.ReadingResult) float64 { return float64(r.Remote) }),
		read("read_mean_s", func(r *sim.ReadingResult) float64 { return r.Time }),
	}
}

func (s set) bandFields(name string) []field {
	of := func(column string, f func(sim.Band) float64) field {
		return number(name+"_"+column, func(r *sim.Result) float64 { return f(r.Band(name)) })
	}
	mean := func(s sim.Spread) float64 {
		if s.N == 0 {
			return missing
		}
		return s.Mean
	}
	return []field{
		of("jobs", func(b sim.Band) float64 { return float64(b.Jobs) }),
		of("tasks", func(b sim.Band) float64 { return float64(b.Tasks) }),
		of("response_mean_s", func(b sim.Band) float64 { return mean(b.Response) }),
		of("response_p50_s", func(b sim.Band) float64 { return quantile(b.Response, 0.5) }),
		of("response_p95_s", func(b sim.Band) float64 { return quantile(b.Response, 0.95) }),
		number(name+"_response_to_reference", s.toReference(func(r *sim.Result) float64 { return response(r, name) })),
		of("task_response_mean_s", func(b sim.Band) float64 { return mean(b.TaskResponse) }),
		of("slowdown_mean", func(b sim.Band) float64 { return mean(b.Slowdown) }),
		of("wasted_core_h", func(b sim.Band) float64 { return b.Wasted / coreHour }),
	}
}

// WriteCDFs writes the distributions, a line for each point, with these columns:
//
//	policy, medium, band    as in WriteCSV; of results with the same three, the
//	                        earlier come first
//	measure                 job_response_s, task_response_s or slowdown
//	share                   0 to 1
//	value                   what this share of them does not exceed
func WriteCDFs(w io.Writer, results []*sim.Result) error {
	rows := [][]string{{"policy", "medium", "band", "measure", "share", "value"}}
	for _, r := range given(results) {
		for _, b := range r.Bands {
			for _, m := range []struct {
				name   string
				spread sim.Spread
			}{{"job_response_s", b.Response}, {"task_response_s", b.TaskResponse}, {"slowdown", b.Slowdown}} {
				for _, p := range cumulative(m.spread) {
					rows = append(rows, []string{string(r.Policy), r.Medium, b.Name, m.name, exact(p.Y), exact(p.X)})
				}
			}
		}
	}
	return writeRows(w, rows)
}
