package rig

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"headrace/lab/work"
)

// Alone runs a workload as a plain process and returns its answer and how long it
// took.
func (h *Bench) Alone(ctx context.Context, args []string, group string) (out string, took float64, err error) {
	cmd := exec.CommandContext(ctx, h.Programs.Lab, append([]string{"bench-task"}, args...)...)
	cmd.Env = TaskEnv()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	started, err := inGroup(cmd.SysProcAttr, group)
	if err != nil {
		return "", 0, err
	}
	defer started()
	start := time.Now()
	text, err := cmd.Output()
	took = time.Since(start).Seconds()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
		}
		return "", 0, fmt.Errorf("run %s alone: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(text)), took, nil
}

// Reference returns the job of a workload, with the answer that it gives undisturbed.
func (h *Bench) Reference(ctx context.Context, args []string, memory int64) (Job, error) {
	out, took, err := h.Alone(ctx, args, "")
	if err != nil {
		return Job{}, err
	}
	return Job{Args: h.JobArgs(args), Memory: memory, Answer: work.LastOf(out), Alone: took}, nil
}

// JobArgs returns those of a workload that daemons run.
func (h *Bench) JobArgs(args []string) []string {
	if !h.NoProgress {
		return args
	}
	return slices.Insert(slices.Clone(args), 1, "--no-progress")
}

// fit finds the amount of work that takes target seconds, from the times of two
// small amounts: the time is taken to be linear in it.
func (h *Bench) fit(ctx context.Context, small, large float64, target float64, args func(n int64) []string) (int64, error) {
	_, t1, err := h.Alone(ctx, args(int64(small)), "")
	if err != nil {
		return 0, err
	}
	_, t2, err := h.Alone(ctx, args(int64(large)), "")
	if err != nil {
		return 0, err
	}
	return Amount(small, t1, large, t2, target), nil
}

// Amount solves for target; at least small.
func Amount(small, t1, large, t2, target float64) int64 {
	slope := (t2 - t1) / (large - small)
	if slope <= 0 {
		return int64(large)
	}
	return int64(math.Max(small, math.Round(small+(target-t1)/slope)))
}

// The room that a workload takes beside what it was told to fill.
const TaskOverhead = 48 << 20

// ParseJob reads the text for about target seconds.
func (h *Bench) ParseJob(ctx context.Context, text string, target float64) (Job, error) {
	args := func(n int64) []string {
		return []string{"parse", "--file", text, "--bytes", strconv.FormatInt(n, 10)}
	}
	n, err := h.fit(ctx, 16<<20, 128<<20, target, args)
	if err != nil {
		return Job{}, err
	}
	return h.Reference(ctx, args(n), TaskOverhead)
}

// DirtyRounds returns how many rounds compute for about target seconds.
func (h *Bench) DirtyRounds(ctx context.Context, target float64) (int64, error) {
	return h.fit(ctx, 1000, 20000, target, func(n int64) []string { return dirtyArgs(1<<20, n, 1) })
}

func dirtyArgs(bytes, rounds int64, seed uint64) []string {
	return []string{"dirty", "--bytes", strconv.FormatInt(bytes, 10),
		"--rounds", strconv.FormatInt(rounds, 10), "--seed", strconv.FormatUint(seed, 10)}
}

// DirtyJob returns a task that fills bytes.
func (h *Bench) DirtyJob(ctx context.Context, bytes, rounds int64, seed uint64) (Job, error) {
	return h.Reference(ctx, dirtyArgs(bytes, rounds, seed), bytes+TaskOverhead)
}

// KmeansJob works on bytes of points for about target seconds.
func (h *Bench) KmeansJob(ctx context.Context, bytes int64, seed uint64, target float64) (Job, error) {
	args := func(n int64) []string {
		return []string{"kmeans", "--bytes", strconv.FormatInt(bytes, 10),
			"--iterations", strconv.FormatInt(n, 10), "--seed", strconv.FormatUint(seed, 10)}
	}
	n, err := h.fit(ctx, 1, 3, target, args)
	if err != nil {
		return Job{}, err
	}
	return h.Reference(ctx, args(n), bytes+TaskOverhead)
}

// Measure returns the bandwidth of a directory as a process in the cgroup finds it.
func (h *Bench) Measure(ctx context.Context, dir, group string, bytes int64) (write, read float64, err error) {
	out, _, err := h.Alone(ctx, []string{"disk", "--dir", dir, "--bytes", strconv.FormatInt(bytes, 10)}, group)
	if err != nil {
		return 0, 0, err
	}
	first, _, _ := strings.Cut(out, "\n")
	v, err := work.ParseFloats(first)
	if err != nil || len(v) != 2 {
		return 0, 0, fmt.Errorf("measure %s: unexpected answer %q", dir, out)
	}
	return v[0], v[1], nil
}

// RandomText writes lines of random words, the input of light tasks.
func (h *Bench) RandomText(bytes int64) (string, error) {
	path := filepath.Join(h.Disk.Dir, "text")
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	r := work.Random(h.Seed)
	const letters = "etaoinshrdlucmfwypvbgkjqxz"
	for n := int64(0); n < bytes; n++ {
		v := r.Next()
		switch {
		case v%64 == 0:
			w.WriteByte('\n')
		case v%6 == 0:
			w.WriteByte(' ')
		default:
			w.WriteByte(letters[(v>>32)%uint64(len(letters))])
		}
	}
	return path, errors.Join(w.Flush(), f.Close())
}
