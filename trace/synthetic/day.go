package synthetic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"headrace"
)

// MaxDayFile is the longest file that ReadDay accepts, in bytes.
const MaxDayFile = 1 << 20

// dayBands and dayFirst are the bands and the first priority of each
// (headrace.Priority.Band).
var (
	dayBands      = [...]string{"free", "middle", "production"}
	dayFirst      = [...]headrace.Priority{0, 2, 9}
	dayPriorities = [...]int{2, 7, 3}
)

const dayClasses = 4

// ReadDay reads the parameters of a day as JSON, in the form of GoogleDayFile. A
// field that there is not is refused, and so is what Validate refuses.
func ReadDay(r io.Reader) (Day, error) {
	text, err := io.ReadAll(io.LimitReader(r, MaxDayFile+1))
	if err != nil {
		return Day{}, fmt.Errorf("parameters of a day: %w", err)
	}
	if len(text) > MaxDayFile {
		return Day{}, fmt.Errorf("parameters of a day: longer than %d bytes: this is another file", MaxDayFile)
	}
	var d Day
	if err := decodeStrictly(text, &d); err != nil {
		return Day{}, fmt.Errorf("parameters of a day: %w", err)
	}
	if err := d.Validate(); err != nil {
		return Day{}, err
	}
	return d, nil
}

// Validate says what is wrong with d, all of it, or returns nil. Fields are named as
// in the file.
func (d Day) Validate() error {
	var v dayChecker
	v.check(d.Name != "", "name", d.Name, "want a name")
	v.within("jobs", float64(d.Jobs), 1, 1e8)
	v.within("tasks", float64(d.Tasks), float64(max(1, d.Jobs)), maxGenerated)
	v.within("hours", d.Hours, 0.01, 24*366)
	v.within("cluster.nodes", float64(d.Cluster.Nodes), 1, 1e7)
	v.within("cluster.cpus", d.Cluster.CPUs, 1e-3, 1e5)
	v.within("cluster.memory", float64(d.Cluster.Memory), 1<<20, 1<<50)
	if len(d.Bands) != len(dayBands) {
		v.fail("bands", len(d.Bands), "want three: free, middle and production")
		return errors.Join(v.errs...)
	}
	var tasks, jobs []float64
	for i := range d.Bands {
		b := &d.Bands[i]
		tasks, jobs = append(tasks, b.Tasks), append(jobs, b.Jobs)
		v.prefix = fmt.Sprintf("bands[%d].", i)
		v.check(b.Name == dayBands[i], "name", b.Name, "want "+dayBands[i])
		v.band(b, dayPriorities[i])
	}
	v.prefix = ""
	v.shares("tasks of all bands", tasks, len(tasks))
	v.shares("jobs of all bands", jobs, len(jobs))
	return errors.Join(v.errs...)
}

// dayChecker collects what is wrong.
type dayChecker struct {
	prefix string
	errs   []error
}

func (v *dayChecker) fail(field string, value any, want string) {
	if s, ok := value.(string); ok {
		value = fmt.Sprintf("%q", s)
	}
	v.errs = append(v.errs, fmt.Errorf("parameters of a day: %s%s: %v: %s", v.prefix, field, value, want))
}

func (v *dayChecker) check(ok bool, field string, value any, want string) {
	if !ok {
		v.fail(field, value, want)
	}
}

// within wants a number from least to most; it refuses NaN.
func (v *dayChecker) within(field string, value, least, most float64) {
	v.check(value >= least && value <= most, field, value, fmt.Sprintf("want %v to %v", least, most))
}

// shares wants n numbers from 0 to 1 whose sum is 1.
func (v *dayChecker) shares(field string, values []float64, n int) {
	sum := 0.0
	for _, s := range values {
		if !(s >= 0 && s <= 1) {
			v.fail(field, s, "want shares from 0 to 1")
			return
		}
		sum += s
	}
	v.check(len(values) == n, field, values, fmt.Sprintf("want %d shares", n))
	v.check(math.Abs(sum-1) <= 0.001, field, values, fmt.Sprintf("their sum is %v, want 1", sum))
}

func (v *dayChecker) band(b *DayBand, priorities int) {
	v.shares("priorities", b.Priorities, priorities)
	v.shares("classes", b.Classes, dayClasses)
	v.within("cores", b.Cores, 1e-3, 1e9)
	v.within("core_hours", b.CoreHours, 1e-6, 1e12)

	v.within("size.single", b.Size.Single, 0, 1)
	v.within("size.most", float64(b.Size.Most), 1, maxGenerated)

	v.arrival(&b.Arrival)

	v.within("run.job_sigma", b.Run.JobSigma, 0, 5)
	v.within("run.task_sigma", b.Run.TaskSigma, 0, 5)
	v.within("run.least", b.Run.Least, 0.001, 1e8)
	v.within("run.most", b.Run.Most, b.Run.Least, 1e8)

	v.within("cpus.sigma", b.CPUs.Sigma, 0, 5)
	v.within("cpus.least", b.CPUs.Least, 1e-4, 1e5)
	v.within("cpus.most", b.CPUs.Most, b.CPUs.Least, 1e5)
	v.within("cpus.with_run", b.CPUs.WithRun, -1, 1)

	m := &b.Memory
	v.within("memory.least", m.Least, 1<<20, 1<<50)
	v.within("memory.most", m.Most, m.Least, 1<<50)
	v.within("memory.mean", m.Mean, m.Least, m.Most)
	v.within("memory.sigma", m.Sigma, 0, 5)
	v.within("memory.with_cpus", m.WithCPUs, -1, 1)
	v.within("memory.grow_seconds", m.GrowSeconds, 0, 1e6)
	v.within("memory.grow_sigma", m.GrowSigma, 0, 5)
	v.within("memory.dirty_share", m.DirtyShare, 0, 1)
	v.within("memory.dirty_sigma", m.DirtySigma, 0, 5)
}

// maxWaves bounds the work of dealing jobs to waves.
const maxWaves = 10_000

func (v *dayChecker) arrival(a *DayArrival) {
	sum := 0.0
	for i, rate := range a.Rates {
		v.within(fmt.Sprintf("arrival.rates[%d]", i), rate, 0, 1e6)
		sum += rate
	}
	v.check(len(a.Rates) >= 1 && len(a.Rates) <= 10_000, "arrival.rates", len(a.Rates), "want 1 to 10000 rates")
	v.check(sum > 1e-6, "arrival.rates", a.Rates, "want some above 0")
	v.within("arrival.large", float64(a.Large), 0, maxGenerated)
	v.within("arrival.waves", float64(a.Waves), 0, maxWaves)
	v.within("arrival.jitter", a.Jitter, 0, 1)
	v.within("arrival.wave_sigma", a.WaveSigma, 0, 5)
	v.within("arrival.wave_seconds", a.WaveSeconds, 0, 1e6)
}

// decodeStrictly reads one JSON value and nothing after it. Errors name the line.
func decodeStrictly(text []byte, to any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	err := dec.Decode(to)
	at := dec.InputOffset()
	if err == nil {
		if _, more := dec.Token(); more != io.EOF {
			err = errors.New("something comes after the last brace")
		}
	}
	var syntax *json.SyntaxError
	var wrongType *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF):
		return errors.New("the file is empty")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the file ends too early")
	case errors.As(err, &syntax):
		at = syntax.Offset
	case errors.As(err, &wrongType):
		at = wrongType.Offset
		err = fmt.Errorf("%s: want %s, not a %s", wrongType.Field, wrongType.Type, wrongType.Value)
	case strings.Contains(err.Error(), "unknown field"):
		return errors.New(strings.TrimPrefix(err.Error(), "json: ")) // encoding/json does not say where
	}
	at = min(at, int64(len(text)))
	return fmt.Errorf("line %d: %s", 1+bytes.Count(text[:at], []byte("\n")), strings.TrimPrefix(err.Error(), "json: "))
}
