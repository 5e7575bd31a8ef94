package simulate

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"headrace/cli"
	"headrace/sim"
	"headrace/trace"
)

// load is a flag for a share of a cluster's CPUs: 0.9 or 90%.
type load float64

func (l *load) Type() string { return "SHARE" }

func (l *load) String() string {
	if *l == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(*l), 'g', -1, 64)
}

func (l *load) Set(s string) error {
	text, percent := strings.CutSuffix(s, "%")
	v, err := strconv.ParseFloat(text, 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v > 0 && v <= 1000) {
		return errors.New("want a share above 0, such as 0.9 or 90%")
	}
	*l = load(v)
	return nil
}

// adjust changes a workload as was asked for, and says what it did.
func (f *simFlags) adjust(w *trace.Workload, c *sim.Config) (notes []string, err error) {
	if f.skipTooLarge {
		if notes, err = skipTooLarge(w, c); err != nil {
			return nil, err
		}
	}
	if f.wanted == 0 {
		return notes, nil
	}
	if len(f.cluster.sizes) > 1 {
		return nil, cli.UsageErrorf("--load is a share of one cluster: give one number of --nodes")
	}
	had := w.Load() / c.CPUs()
	if had == 0 {
		return nil, errors.New("--load: all tasks of the trace are submitted at once; there is nothing to stretch")
	}
	times := had / float64(f.wanted)
	if span := w.Tasks[len(w.Tasks)-1].Submit.Seconds() * times; span > math.MaxInt64/1e10 {
		return nil, cli.UsageErrorf("--load %v: the trace would take %.0f years", f.wanted.String(), span/86400/365)
	}
	w.Stretch(times)
	return append(notes, fmt.Sprintf("the times between submissions are %.3g times as long: the trace asked for %.3g of the CPUs, and asks for %v now", times, had, f.wanted.String())), nil
}

// skipTooLarge leaves out the tasks that fit on no node or in no queue, and gangs that do not fit on all nodes.
func skipTooLarge(w *trace.Workload, c *sim.Config) ([]string, error) {
	all, n := len(w.Tasks), 0
	var cpus float32
	var memory int64
	large, gangs, queues := c.TooLarge(w), "", ""
	err := w.Drop(func(t *trace.Task) bool {
		if !large(t) {
			return false
		}
		if t.Gang != 0 {
			gangs = ", or their gang not on all together,"
		}
		if queue := c.Refusing(t); queue != "" {
			queues = fmt.Sprintf(", or ask for more than the maximum of their queue, as of %s,", queue)
		}
		n, cpus, memory = n+1, max(cpus, t.CPUs), max(memory, t.Memory)
		return true
	})
	switch {
	case err != nil || n == 0:
		return nil, err
	case n == all:
		return nil, fmt.Errorf("none of the %d tasks fits on a node of %s%s", n, c.Sizes(), strings.TrimSuffix(queues, ","))
	}
	return []string{fmt.Sprintf("%s of %s tasks fit on no node%s%s and are left out; the largest ask for %.3g CPUs and %d MiB", cli.Grouped(n), cli.Grouped(all), gangs, queues, cpus, memory>>20)}, nil
}
