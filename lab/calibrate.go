package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// alone runs a workload as a plain process and returns its answer and how long it
// took.
func (h *harness) alone(ctx context.Context, args []string, group string) (out string, took float64, err error) {
	cmd := exec.CommandContext(ctx, h.programs.Lab, append([]string{"bench-task"}, args...)...)
	cmd.Env = taskEnv()
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

// reference is the job of a workload, with the answer that it gives undisturbed.
func (h *harness) reference(ctx context.Context, args []string, memory int64) (job, error) {
	out, took, err := h.alone(ctx, args, "")
	if err != nil {
		return job{}, err
	}
	return job{args: args, memory: memory, answer: lastOf(out), alone: took}, nil
}

// fit finds the amount of work that takes target seconds, from the times of two
// small amounts: the time is taken to be linear in it.
func (h *harness) fit(ctx context.Context, small, large float64, target float64, args func(n int64) []string) (int64, error) {
	_, t1, err := h.alone(ctx, args(int64(small)), "")
	if err != nil {
		return 0, err
	}
	_, t2, err := h.alone(ctx, args(int64(large)), "")
	if err != nil {
		return 0, err
	}
	return amount(small, t1, large, t2, target), nil
}

// amount solves for target; at least small.
func amount(small, t1, large, t2, target float64) int64 {
	slope := (t2 - t1) / (large - small)
	if slope <= 0 {
		return int64(large)
	}
	return int64(math.Max(small, math.Round(small+(target-t1)/slope)))
}

// The room that a workload takes beside what it was told to fill.
const taskOverhead = 48 << 20

// parseJob reads the text for about target seconds.
func (h *harness) parseJob(ctx context.Context, text string, target float64) (job, error) {
	args := func(n int64) []string {
		return []string{"parse", "--file", text, "--bytes", strconv.FormatInt(n, 10)}
	}
	n, err := h.fit(ctx, 16<<20, 128<<20, target, args)
	if err != nil {
		return job{}, err
	}
	return h.reference(ctx, args(n), taskOverhead)
}

// dirtyRounds is how many rounds compute for about target seconds.
func (h *harness) dirtyRounds(ctx context.Context, target float64) (int64, error) {
	return h.fit(ctx, 1000, 20000, target, func(n int64) []string { return dirtyArgs(1<<20, n, 1) })
}

func dirtyArgs(bytes, rounds int64, seed uint64) []string {
	return []string{"dirty", "--bytes", strconv.FormatInt(bytes, 10),
		"--rounds", strconv.FormatInt(rounds, 10), "--seed", strconv.FormatUint(seed, 10)}
}

// dirtyJob is a task that fills bytes.
func (h *harness) dirtyJob(ctx context.Context, bytes, rounds int64, seed uint64) (job, error) {
	return h.reference(ctx, dirtyArgs(bytes, rounds, seed), bytes+taskOverhead)
}

// kmeansJob works on bytes of points for about target seconds.
func (h *harness) kmeansJob(ctx context.Context, bytes int64, seed uint64, target float64) (job, error) {
	args := func(n int64) []string {
		return []string{"kmeans", "--bytes", strconv.FormatInt(bytes, 10),
			"--iterations", strconv.FormatInt(n, 10), "--seed", strconv.FormatUint(seed, 10)}
	}
	n, err := h.fit(ctx, 1, 3, target, args)
	if err != nil {
		return job{}, err
	}
	return h.reference(ctx, args(n), bytes+taskOverhead)
}

// measure is the bandwidth of a directory as a process in the cgroup finds it.
func (h *harness) measure(ctx context.Context, dir, group string, bytes int64) (write, read float64, err error) {
	out, _, err := h.alone(ctx, []string{"disk", "--dir", dir, "--bytes", strconv.FormatInt(bytes, 10)}, group)
	if err != nil {
		return 0, 0, err
	}
	first, _, _ := strings.Cut(out, "\n")
	v, err := parseFloats(first)
	if err != nil || len(v) != 2 {
		return 0, 0, fmt.Errorf("measure %s: unexpected answer %q", dir, out)
	}
	return v[0], v[1], nil
}

// randomText writes lines of random words, the input of light tasks.
func (h *harness) randomText(bytes int64) (string, error) {
	path := filepath.Join(h.disk.dir, "text")
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	r := random(h.seed)
	const letters = "etaoinshrdlucmfwypvbgkjqxz"
	for n := int64(0); n < bytes; n++ {
		v := r.next()
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
