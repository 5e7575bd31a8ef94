package yarn

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// hadoopShell is a running headrace.cluster.HadoopShell: Hadoop's own client on a machine, one virtual machine for all that is
// asked there.
type hadoopShell struct {
	*process
	stdin io.WriteCloser
}

// Shell has Hadoop's own client on machine i do something, as in "hdfs dfs -put FILE /x"; properties
// are -Dname=value before the command. No word may have a space. One goroutine at a time may call it.
func (h *HDFS) Shell(ctx context.Context, i int, words ...string) error {
	s, err := h.shell(ctx, i)
	if err != nil {
		return err
	}
	before := logSize(s.log)
	if _, err := fmt.Fprintln(s.stdin, h.User(), strings.Join(words, " ")); err != nil {
		return fmt.Errorf("ask the %s: %w", s.name, err)
	}
	return s.succeed(ctx, before)
}

// shell returns that of machine i, which it starts if there is none yet.
func (h *HDFS) shell(ctx context.Context, i int) (*hadoopShell, error) {
	if s := h.shells[i]; s != nil {
		return s, nil
	}
	cmd := h.javaOfHadoop(clientHeap, "headrace.cluster.HadoopShell", h.confDir(), []string{h.o.Jars.Cluster})
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p, err := h.machines[i].run("client of HDFS", fmt.Sprint("hdfs-client", i), cmd)
	if err != nil {
		return nil, err
	}
	s := &hadoopShell{p, stdin}
	h.shells[i] = s
	return s, s.succeed(ctx, 0)
}

// shellAnswer ends what it says, behind output without an end of a line perhaps, with an exit code.
var shellAnswer = regexp.MustCompile(`(?:^|[^>=-])> (-?\d+)\n`)

// succeed returns when it has answered, behind a place in its log, that it has done what it was told.
func (s *hadoopShell) succeed(ctx context.Context, from int64) error {
	return await(ctx, "wait for the "+s.name, startTime, func(context.Context) (bool, error) {
		gone := s.gone()
		text, err := os.ReadFile(s.log)
		if err != nil {
			return false, err
		}
		switch answer := shellAnswer.FindSubmatch(text[from:]); {
		case answer != nil && string(answer[1]) != "0":
			return false, &fatal{fmt.Errorf("exit code %s%s", answer[1], s.quote())}
		case answer == nil && gone:
			return false, &fatal{s.problem()}
		default:
			return answer != nil, nil
		}
	})
}

// shellProcesses are those of all machines.
func (h *HDFS) shellProcesses() (all []*process) {
	for _, s := range h.shells {
		all = append(all, s.process)
	}
	return all
}
