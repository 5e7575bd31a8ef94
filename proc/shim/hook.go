package shim

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// What must be done while CRIU holds a tree, and nobody can continue it, is done when CRIU runs its action script. That
// asks whoever runs CRIU, and CRIU waits for its end. It is one of the shell's: CRIU runs it at each of several actions, and a program like
// this one takes milliseconds to start.
//
// A dump that has succeeded leaves the task's connections locked: a firewall rule drops
// their packets, and the sockets send none. CRIU undoes that, along with the names that it has
// given to deleted files, when a dump fails. (If it is killed, see letGo.) So the dump must
// not have succeeded before the image is committed: the script asks for that, and with its exit code
// the dump fails too.
//
// A restored tree can be continued by its user as soon as CRIU lets go of it, although it is to be stopped. So before that it
// gets what the images lack (complete). CRIU does not mind the exit code then.
const (
	atDumped   = "post-dump"
	atRestored = "pre-resume" // every thread is about to go on with the program

	// hookScript asks by the first file and is answered by the second. If whoever it asks goes away it fails.
	hookScript = `#!/bin/sh
[ "$CRTOOLS_SCRIPT_ACTION" = %s ] || exit 0
echo >%s && read -r word <%s && [ "$word" = y ]
`
)

// A hook is what a run of CRIU waits for at an action. Its script is an argument for CRIU.
type hook struct {
	script                     string
	question, ask, answer, say *os.File
}

// newHook makes a hook, with its script in a directory that is root's and where programs may be run.
func newHook(action, dir string) (h *hook, err error) {
	h = &hook{script: filepath.Join(dir, action)}
	if h.question, h.ask, err = os.Pipe(); err != nil {
		return nil, err
	}
	if h.answer, h.say, err = os.Pipe(); err == nil {
		// CRIU closes what it has inherited before it runs a script.
		path := func(f *os.File) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd()) }
		err = os.WriteFile(h.script, fmt.Appendf(nil, hookScript, action, path(h.ask), path(h.answer)), 0o700)
	}
	if err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

func (h *hook) close() { closeAll([]*os.File{h.question, h.ask, h.answer, h.say}) }

// during has CRIU run, and calls do when it asks. asked says that it has, and answered what do has returned, whatever has become of CRIU
// since. The hook is closed then.
func (h *hook) during(run func(), do func() error) (asked bool, answered error) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		if n, _ := h.question.Read(make([]byte, 1)); n == 0 {
			return
		}
		asked = true
		word := "n\n"
		if answered = do(); answered == nil {
			word = "y\n"
		}
		h.say.WriteString(word) // if nobody reads it, CRIU has been killed
	}()
	run()
	h.close()
	<-over
	return asked, answered
}

// decide runs a criu dump, with its script in a directory. When CRIU has dumped
// the tree and holds it, do decides whether the dump counts; holds tells whether CRIU still
// does, or why it does not. asked says that it came to that; decided is then what do has
// returned, and err how CRIU has ended.
func decide(cmd *exec.Cmd, dir string, do func(holds func() error) error) (asked bool, decided, err error) {
	h, err := newHook(atDumped, dir)
	if err != nil {
		return false, nil, err
	}
	cmd.Args = append(cmd.Args, "--action-script", h.script)
	if err := cmd.Start(); err != nil {
		h.close()
		return false, nil, err
	}
	ended := make(chan struct{})
	holds := func() error {
		select {
		case <-ended:
			return errors.New("CRIU has ended and does not hold the task any more")
		default:
			return nil
		}
	}
	asked, decided = h.during(func() {
		err = cmd.Wait()
		close(ended)
	}, func() error { return do(holds) })
	return asked, decided, err
}
