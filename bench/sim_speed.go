package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"headrace/internal/linux"
	"headrace/policy"
	"headrace/report"
	"headrace/sim"
	"headrace/trace"
)

// SimSpeed is one simulation in a process of its own, on one processor. Times are
// seconds.
type SimSpeed struct {
	Scale  float64 `json:"scale"`
	Policy string  `json:"policy"`
	Jobs   int     `json:"jobs"`
	Tasks  int     `json:"tasks"`
	// Making is how long it took to make the workload, Run to simulate it.
	Making float64 `json:"making"`
	Run    float64 `json:"run"`
	// CPU is the processor time of the whole process, Peak the most memory that it
	// had, in bytes.
	CPU  float64 `json:"cpu"`
	Peak int64   `json:"peak"`
	// Decisions is how many the policy made.
	Decisions int    `json:"decisions"`
	Failure   string `json:"failure,omitempty"`
}

func (s SimSpeed) perSecond() float64 { return float64(s.Tasks) / s.Run }

// speedPolicies in the order in which they are run.
var speedPolicies = []policy.Name{policy.Kill, policy.Suspend, policy.Checkpoint, policy.Adaptive, policy.Cost}

// speedMedium is where the policies have to choose.
const speedMedium = "ssd"

// speed simulates days of several sizes, one after the other on one processor.
func (s *simRunner) speed(ctx context.Context) error {
	media, err := s.mediaFile()
	if err != nil {
		return err
	}
	defer os.Remove(media)
	scales := slices.Sorted(slices.Values(s.o.Scales))
	all, done := 0.0, 0.0
	for _, x := range scales {
		all += x * float64(len(speedPolicies))
	}
	for _, scale := range scales {
		for _, name := range speedPolicies {
			s.say(done/all, "%s, %g of the day, on one processor", name, scale)
			x, err := s.timed(ctx, scale, string(name), media)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			x.Scale, x.Policy = scale, string(name)
			if err != nil {
				x.Failure = err.Error()
				s.res.failed("%s, %g of the day: %v", name, scale, err)
			}
			s.res.Speeds = append(s.res.Speeds, x)
			done += scale
		}
	}
	return nil
}

// mediaFile is a file with the measurements, for other processes.
func (s *simRunner) mediaFile() (string, error) {
	var b bytes.Buffer
	if err := s.media.Write(&b); err != nil {
		return "", err
	}
	path := filepath.Join(s.o.Dir, scratchPrefix+strconv.Itoa(os.Getpid())+"-media.json")
	return path, os.WriteFile(path, b.Bytes(), 0o600)
}

// timed simulates in a process of its own.
func (s *simRunner) timed(ctx context.Context, scale float64, name, media string) (SimSpeed, error) {
	cmd := exec.CommandContext(ctx, s.o.Headrace, "bench-task", "simulate", "--trace", s.o.Trace, "--seed", strconv.FormatUint(s.o.Seed, 10),
		"--scale", strconv.FormatFloat(scale, 'g', -1, 64), "--policy", name, "--media", media, "--storage", speedMedium)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return SimSpeed{}, fmt.Errorf("%w: %s", err, strings.TrimSpace(complaint.String()))
	}
	var x SimSpeed
	first, _, _ := bytes.Cut(out, []byte("\n"))
	if err := json.Unmarshal(first, &x); err != nil {
		return x, fmt.Errorf("unexpected answer %.100q: %w", first, err)
	}
	x.CPU = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	return x, nil
}

// simulation is the workload of the experiment speed: one policy run.
type simulation struct {
	trace, policy, media, storage string
	seed                          uint64
	scale                         float64
}

func newSimulation(fs *flag.FlagSet) work {
	s := &simulation{}
	fs.StringVar(&s.trace, "trace", "synthetic:google-day", "the trace")
	fs.Uint64Var(&s.seed, "seed", 1, "of the trace")
	fs.Float64Var(&s.scale, "scale", 1, "of the trace")
	fs.StringVar(&s.policy, "policy", "cost", "the policy")
	fs.StringVar(&s.media, "media", "", "a file of measurements")
	fs.StringVar(&s.storage, "storage", speedMedium, "the medium")
	return s
}

// run prints what it took before the usual last line.
func (s *simulation) run(m *meter) (uint64, error) {
	runner := &simRunner{o: &SimOptions{Media: s.media}}
	runner.o.Seed = s.seed
	var err error
	if runner.media, err = runner.o.measurements(); err != nil {
		return 0, err
	}
	ctx, start := context.Background(), time.Now()
	w, err := trace.Open(ctx, s.trace, trace.OpenOptions{Seed: s.seed, Scale: s.scale})
	if err != nil {
		return 0, err
	}
	c, err := runner.simConfig(w, policy.Name(s.policy), s.storage)
	if err != nil {
		return 0, err
	}
	made := time.Now()
	result, err := sim.Run(ctx, w, c, nil)
	if err != nil {
		return 0, err
	}
	took := SimSpeed{Jobs: len(w.Jobs), Tasks: len(w.Tasks), Making: made.Sub(start).Seconds(), Run: time.Since(made).Seconds(), Decisions: result.Counts.Decisions}
	// What the parent would be told (rusage) has the parent's own peak in it.
	status, err := linux.ProcFS("").Status(os.Getpid())
	if err != nil {
		return 0, err
	}
	took.Peak = status.PeakRSS
	line, err := json.Marshal(took)
	if err != nil {
		return 0, err
	}
	fmt.Printf("%s\n", line)
	text, err := json.Marshal(result)
	if err != nil {
		return 0, err
	}
	sum := fnv.New64a()
	sum.Write(text)
	return sum.Sum64(), nil
}

// The aims: 600,000 tasks in 10 s and 1 GB, and ten times as many in little more than
// ten times as long.
const (
	speedTasks  = 600000
	speedRun    = 10
	speedPeak   = 1e9
	speedGrowth = 1.5
)

// theDay are the runs of the size that the aims are about: within a tenth of
// speedTasks.
func (r *SimResults) theDay() []SimSpeed {
	var out []SimSpeed
	for _, x := range r.Speeds {
		if x.Failure == "" && math.Abs(float64(x.Tasks)/speedTasks-1) < 0.1 {
			out = append(out, x)
		}
	}
	return out
}

// growth is the time for each task over that of the next smaller day of the policy,
// NaN for the smallest.
func (r *SimResults) growth(x SimSpeed) float64 {
	ratio, tasks := math.NaN(), 0
	for _, s := range r.Speeds {
		if s.Failure == "" && s.Policy == x.Policy && s.Tasks < x.Tasks && s.Tasks > tasks {
			ratio, tasks = s.perSecond()/x.perSecond(), s.Tasks
		}
	}
	return ratio
}

// speedAims take the worst policy.
func (r *SimResults) speedAims() []readingAim {
	run := readingAim{what: "600,000 tasks on one processor", unit: report.UnitTenths, bound: speedRun, value: spreadOf(nil)}
	peak := readingAim{what: "600,000 tasks: peak memory", unit: report.UnitBytes, bound: speedPeak, value: spreadOf(nil)}
	grow := readingAim{what: "ten times as many tasks: time for each task", unit: report.UnitRatio, bound: speedGrowth, value: spreadOf(nil)}
	worst := func(a *readingAim, v float64, where string) {
		if !(v <= a.value.Median) && !math.IsNaN(v) {
			a.value, a.where = spreadOf([]float64{v}), where
		}
	}
	for _, x := range r.theDay() {
		worst(&run, x.Run, x.Policy)
		worst(&peak, float64(x.Peak), x.Policy)
	}
	for _, x := range r.Speeds {
		if x.Failure == "" && x.Tasks > 2*speedTasks {
			worst(&grow, r.growth(x), x.Policy)
		}
	}
	return []readingAim{run, peak, grow}
}

func (r *SimResults) speedTable() *report.Table {
	t := &report.Table{
		Title: "How fast the simulator is, on one processor",
		Note: "Each run is a process of its own. Making the workload is not part of the simulation; processor time and memory are of both. " +
			"Growth: time for each task over that of the smaller day. " + aimNote(r.speedAims()),
		Columns: []report.Column{{Title: "tasks", Align: report.Right}, {Title: "policy"}, {Title: "simulation", Align: report.Right}, {Title: "tasks/s", Align: report.Right},
			{Title: "growth", Align: report.Right}, {Title: "decisions", Align: report.Right}, {Title: "making", Align: report.Right}, {Title: "processor", Align: report.Right}, {Title: "peak memory", Align: report.Right}},
	}
	for _, x := range r.Speeds {
		if x.Failure != "" {
			continue
		}
		growth := report.Str("")
		if g := r.growth(x); !math.IsNaN(g) {
			growth = report.Num(g, report.UnitRatio)
		}
		t.Add(count(x.Tasks), report.Str(x.Policy), report.Num(x.Run, report.UnitTenths), report.Num(math.Round(x.perSecond()), report.UnitNone), growth,
			count(x.Decisions), report.Num(x.Making, report.UnitTenths), report.Num(x.CPU, report.UnitTenths), report.Num(float64(x.Peak), report.UnitBytes))
	}
	return t
}

// speedLines are the time over the tasks, one line for each policy.
func (r *SimResults) speedLines() *report.Lines {
	l := &report.Lines{Title: "Time of a simulation", Better: report.Lower,
		X: report.Axis{Label: "tasks", Log: true}, Y: report.Axis{Unit: report.UnitSeconds, Log: true}}
	for _, name := range speedPolicies {
		s := report.Series{Name: string(name)}
		for _, x := range r.Speeds {
			if x.Policy == string(name) && x.Failure == "" {
				s.Points = append(s.Points, report.Point{X: float64(x.Tasks), Y: x.Run})
			}
		}
		if len(s.Points) > 0 {
			l.Series = append(l.Series, s)
		}
	}
	return l
}
