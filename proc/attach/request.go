package attach

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"headrace"
	"headrace/proc"
)

// Limits on what a caller may send.
const (
	// maxFrame bounds an encoded request.
	maxFrame    = 4 << 20
	maxID       = 200
	maxPath     = 4095
	maxVariable = 100
)

// Request asks for a command to be run as a task. All of it is the caller's word;
// what the kernel says of the caller is in Peer.
type Request struct {
	// ID is how whoever announced the command calls it. It can be the name of a
	// file.
	ID string `json:"id"`
	// Again: the command was started, its supervisor has gone, and its checkpoint may be
	// there. Another supervisor is asked for, under which it goes on later.
	Again bool     `json:"again,omitempty"`
	Argv  []string `json:"argv"`
	// Env is the whole environment.
	Env   []string `json:"env"`
	Cwd   string   `json:"cwd"`
	Umask uint32   `json:"umask"`
	// PIDVar names the variable of the environment that is to hold the command's
	// own pid; empty: none.
	PIDVar string `json:"pid_var,omitempty"`
	// Limits are the limits that the command would have.
	Limits []proc.Limit `json:"limits,omitempty"`
	// Stdout and Stderr are where its output would go.
	Stdout Output `json:"stdout"`
	Stderr Output `json:"stderr"`
}

// Output is one stream of output. The zero value is something that cannot be
// passed on, such as a terminal: the task keeps the output in its own log.
type Output struct {
	// Pipe: its descriptor comes with the request.
	Pipe bool `json:"pipe,omitempty"`
	// Path is a regular file, to be appended to.
	Path string `json:"path,omitempty"`
}

// Spec returns the task that the request asks for, with the rights of the caller and
// no more.
func (q Request) Spec(p Peer) proc.Spec {
	return proc.Spec{
		ID: headrace.TaskID(q.ID), Argv: q.Argv, Env: q.Env, Cwd: q.Cwd, Umask: q.Umask,
		UID: p.UID, GID: p.GID, Groups: p.Groups,
		Stdout: q.Stdout.Path, Stderr: q.Stderr.Path,
		Attached: true, PIDVar: q.PIDVar, Limits: Allowed(q.Limits, p.Limits), Nice: &p.Nice, OOMScoreAdj: p.OOMScoreAdj,
	}
}

// Allowed returns the wanted limits, none of them higher than the hard limits that a
// process has. Resources that it says nothing of are as it has them.
func Allowed(wanted, have []proc.Limit) []proc.Limit {
	out := make([]proc.Limit, 0, len(have))
	for _, h := range have {
		for _, w := range wanted {
			if w.Resource == h.Resource {
				h.Hard = min(w.Hard, h.Hard)
				h.Soft = min(w.Soft, h.Hard)
			}
		}
		out = append(out, h)
	}
	return out
}

// parseRequest reads and checks a request.
func parseRequest(b []byte) (Request, error) {
	var q Request
	if err := json.Unmarshal(b, &q); err != nil {
		return q, fmt.Errorf("read the request: %w", err)
	}
	return q, q.check()
}

func (q Request) check() error {
	for _, check := range []func() error{q.checkName, q.checkCommand, q.checkPlaces} {
		if err := check(); err != nil {
			return err
		}
	}
	for _, l := range q.Limits {
		if l.Resource < 0 || l.Resource >= len(resourceNames) || l.Soft > l.Hard {
			return fmt.Errorf("limit %+v is not one", l)
		}
	}
	if len(q.Limits) > len(resourceNames) {
		return fmt.Errorf("%d limits; there are %d", len(q.Limits), len(resourceNames))
	}
	return nil
}

func (q Request) checkName() error {
	if len(q.ID) > maxID || q.ID != filepath.Base(q.ID) || strings.HasPrefix(q.ID, ".") || !plain(q.ID) {
		return fmt.Errorf("%.40q cannot be the name of a task", q.ID)
	}
	return nil
}

// checkCommand also refuses what JSON cannot carry unchanged.
func (q Request) checkCommand() error {
	if err := proc.CheckCommand(q.Argv, q.Env); err != nil {
		return err
	}
	for _, list := range [][]string{q.Argv, q.Env} {
		for _, s := range list {
			if !plain(s) {
				return fmt.Errorf("the argument or variable %.40q is not text in UTF-8", s)
			}
		}
	}
	if len(q.PIDVar) > maxVariable || strings.Contains(q.PIDVar, "=") || !plain(q.PIDVar) {
		return fmt.Errorf("%.40q cannot be the name of a variable", q.PIDVar)
	}
	return nil
}

func (q Request) checkPlaces() error {
	for _, p := range []string{q.Cwd, q.Stdout.Path, q.Stderr.Path} {
		if p != "" && (len(p) > maxPath || !filepath.IsAbs(p) || !plain(p)) {
			return fmt.Errorf("%.40q is not an absolute path of at most %d bytes", p, maxPath)
		}
	}
	if q.Cwd == "" {
		return errors.New("there is no working directory")
	}
	if q.Umask > 0o777 {
		return fmt.Errorf("umask %#o is more than 0777", q.Umask)
	}
	if q.Stdout.Pipe && q.Stdout.Path != "" || q.Stderr.Pipe && q.Stderr.Path != "" {
		return errors.New("an output is a pipe or has a path, not both")
	}
	return nil
}

// plain reports whether a string comes through JSON and the kernel unchanged.
func plain(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// unlimited is the kernel's value for no limit.
const unlimited = math.MaxUint64
