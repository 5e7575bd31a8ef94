package criu

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// smokeEnv marks the process that Smoke starts; its value is a smokeOrder.
const smokeEnv = "HEADRACE_CRIU_SMOKE"

// ErrNeedsRoot: CRIU and the namespaces of a task need root.
var ErrNeedsRoot = errors.New("CRIU needs root")

// SmokeError says what did not work in a smoke test.
type SmokeError struct {
	// Step is what was being done: "namespaces", "start", "dump", "restore" or
	// "check".
	Step string
	// Said are CRIU's last errors, empty where CRIU was not running.
	Said string
	// Cause is how it failed.
	Cause string
}

// Error returns one line: the step, what it means and CRIU's own words.
func (e *SmokeError) Error() string {
	text := "CRIU smoke test: " + e.Step + ": " + e.Cause
	if why := Explain(e.Said); why != "" {
		text += ": " + why
	}
	if e.Said != "" {
		text += " (CRIU: " + e.Said + ")"
	}
	return text
}

type smokeOrder struct{ CRIU, Dir string }

// Smoke dumps and restores a process that holds a listening TCP socket, the way
// tasks are dumped: by a CRIU inside the process's own pid and mount namespace.
// It takes about 100 ms, needs root (else ErrNeedsRoot) and leaves nothing
// behind. A failure of CRIU is a *SmokeError. The result holds until CRIU or the
// kernel changes; the caller keeps it.
func (c Criu) Smoke(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return ErrNeedsRoot
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "headrace-criu-")
	if err != nil {
		return fmt.Errorf("CRIU smoke test: %w", err)
	}
	defer os.RemoveAll(dir)
	path, err := filepath.Abs(c.Path)
	if err != nil {
		return fmt.Errorf("CRIU smoke test: %w", err)
	}
	order, err := json.Marshal(smokeOrder{CRIU: path, Dir: dir})
	if err != nil {
		return fmt.Errorf("CRIU smoke test: %w", err)
	}

	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Env = []string{smokeEnv + "=" + string(order), "PATH=" + os.Getenv("PATH")}
	cmd.Dir = "/"
	cmd.WaitDelay = 5 * time.Second
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
	}
	// Pdeathsig is about the thread that forked: it must live as long as this.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return &SmokeError{Step: "namespaces", Cause: err.Error()}
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		return fmt.Errorf("CRIU smoke test: %w", ctx.Err())
	}
	var failure *SmokeError
	if jerr := json.Unmarshal(out.Bytes(), &failure); jerr != nil {
		return &SmokeError{Step: "start", Cause: fmt.Sprintf("the first process ended early (%v): %s", err, lastLine(complaints.String()))}
	}
	if failure != nil {
		return failure
	}
	return nil
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}
