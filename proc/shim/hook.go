package shim

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// A dump that has succeeded leaves the task's connections locked: a firewall rule drops
// their packets, and the sockets send none. CRIU undoes that, along with the names that it has
// given to deleted files, when a dump fails. (If it is killed, see letGo.) So the dump must
// not have succeeded before the image is committed: CRIU is given an action script, which
// asks for that, and with whose exit code the dump fails too.

const (
	// scriptAction is the variable in which CRIU tells an action script when it runs.
	scriptAction = "CRTOOLS_SCRIPT_ACTION"
	// decideEnv tells ours by which files it asks and is answered.
	decideEnv = "HEADRACE_DECIDE"
	// counts is the answer that the dump is to count.
	counts = "y"
)

// decide runs a criu dump that has this program for its action script. When CRIU has dumped
// the tree and holds it, do decides whether the dump counts; holds tells whether CRIU still
// does, or why it does not. asked says that it came to that; decided is then what do has
// returned, and err how CRIU has ended.
func decide(cmd *exec.Cmd, do func(holds func() error) error) (asked bool, decided, err error) {
	self, err := os.Executable()
	if err != nil {
		return false, nil, err
	}
	question, ask, err := os.Pipe()
	if err != nil {
		return false, nil, err
	}
	defer question.Close()
	defer ask.Close()
	answer, say, err := os.Pipe()
	if err != nil {
		return false, nil, err
	}
	defer answer.Close()
	defer say.Close()
	cmd.Args = append(cmd.Args, "--action-script", self)
	cmd.Env = append(os.Environ(), decideEnv+"="+descriptorPath(ask)+" "+descriptorPath(answer))
	if err := cmd.Start(); err != nil {
		return false, nil, err
	}
	var failed error
	ended := make(chan struct{})
	go func() {
		failed = cmd.Wait()
		close(ended)
	}()
	came := make(chan struct{})
	go func() {
		if n, _ := question.Read(make([]byte, 1)); n > 0 {
			close(came)
		}
	}()
	select {
	case <-ended:
		return false, nil, failed
	case <-came:
	}
	decided = do(func() error {
		select {
		case <-ended:
			return errors.New("CRIU has ended and does not hold the task any more")
		default:
			return nil
		}
	})
	word := "n"
	if decided == nil {
		word = counts
	}
	say.WriteString(word) // if nobody reads it, CRIU has been killed
	<-ended
	return true, decided, failed
}

// descriptorPath names a file that this process has open, for others: CRIU closes what it
// has inherited before it runs a script.
func descriptorPath(f *os.File) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd()) }

// runScript is CRIU's action script. If whoever it asks goes away it fails, and the dump
// with it.
func runScript() error {
	if os.Getenv(scriptAction) != "post-dump" {
		return nil
	}
	to, from, _ := strings.Cut(os.Getenv(decideEnv), " ")
	answer, err := os.Open(from)
	if err != nil {
		return err
	}
	defer answer.Close()
	ask, err := os.OpenFile(to, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = ask.WriteString("?")
	if err = errors.Join(err, ask.Close()); err != nil {
		return err
	}
	word := make([]byte, 1)
	if _, err := answer.Read(word); err != nil {
		return err
	}
	if string(word) != counts {
		return errors.New("the dump is not to count")
	}
	return nil
}
