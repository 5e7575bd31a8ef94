package hdfstest

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"headrace/internal/testkit"
)

// Shell is a running headrace.cluster.HadoopShell, by which a test uses Hadoop's client: one virtual machine for all
// that it asks for. What that logs is part of what it says. It is used by one goroutine, but for Tell.
type Shell struct {
	t   testing.TB
	in  io.Writer
	out *bufio.Reader
}

// StartShell starts one that is configured in the directory conf, and ends it with the test. The test is skipped where there
// is nothing to run it with, and among short tests.
func StartShell(t testing.TB, conf string) *Shell {
	t.Helper()
	notShort(t)
	cmd, err := ShellCommand(gathered("cluster/target/hadoop"), conf)
	started(t, err)
	in, out := testkit.Pipes(t, cmd)
	cmd.Stderr = cmd.Stdout
	ended := testkit.Start(t, cmd)
	t.Cleanup(func() { in.Close(); <-ended })
	s := &Shell{t, in, bufio.NewReader(out)}
	s.Answer()
	return s
}

// Tell has it do what a line says, which begins with a user, or go on with the next part of a file.
func (s *Shell) Tell(line string) { fmt.Fprintln(s.in, line) }

// Run has a user do something, which must succeed, and returns what it says.
func (s *Shell) Run(user string, words ...string) string {
	s.t.Helper()
	s.Tell(user + " " + strings.Join(words, " "))
	return s.Done(strings.Join(words, " "))
}

// Done returns what is said up to the end of what it was told, which must succeed.
func (s *Shell) Done(what string) string {
	s.t.Helper()
	said, code := s.Answer()
	if code != "0" {
		s.t.Errorf("%s: exit code %s\n%s", what, code, said)
	}
	return said
}

// The lines by which it answers, behind output without an end of a line, and by which it waits between parts of a file.
var (
	answers = regexp.MustCompile(`(?:^|[^>])(> (-?\d+)\n)$`)
	parts   = regexp.MustCompile(`^(>> (.*)\n)$`)
)

// Answer returns what is said up to the end of what it was told, and the exit code.
func (s *Shell) Answer() (said, code string) {
	s.t.Helper()
	return s.until(answers)
}

// Part returns what is said until a part of a file is flushed, and how many bytes another reader sees, or why it failed.
func (s *Shell) Part() (said, visible string) {
	s.t.Helper()
	return s.until(parts)
}

func (s *Shell) until(end *regexp.Regexp) (said, rest string) {
	s.t.Helper()
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			s.t.Fatalf("%v after %s%s", err, said, line)
		}
		if at := end.FindStringSubmatchIndex(line); at != nil {
			return said + line[:at[2]], line[at[4]:at[5]]
		}
		said += line
	}
}

// ShellCommand returns a command that is Hadoop's client, configured in the directory conf: headrace.cluster.HadoopShell,
// which says what it is told on standard input. hadoop is where java/cluster gathers jars. The error is ErrMissing
// when they are not there, or no Java.
func ShellCommand(hadoop, conf string) (*exec.Cmd, error) {
	j, err := find(hadoop)
	if err != nil {
		return nil, err
	}
	flags := slices.Concat([]string{"-Xmx192m"}, small, j.archiveFlags(), []string{"-cp", j.path + ":" + conf, "headrace.cluster.HadoopShell"})
	return exec.Command(j.java, flags...), nil
}

// small makes a virtual machine start quickly and stay small.
var small = []string{"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
	"-XX:MetaspaceSize=128m",                                            // else all garbage is collected when classes take 21 MB: a tenth of the processor time of a start
	"-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote", // an eighth
	"-XX:ArchiveRelocationMode=0", // else each page of the archive is written
	"--add-opens=java.base/java.lang=ALL-UNNAMED"}

// archiveFlags have it use the archive of classes that "headrace-lab yarn archive" makes, if it is there: with it a start takes a
// third of the processor time. The jars must be first in the class path, as find has them.
func (j *hadoopJars) archiveFlags() []string {
	return []string{"-XX:SharedArchiveFile=" + j.archive, "-Xshare:auto", "-Xlog:disable", "-Xlog:all=warning:stderr", "-Xlog:cds=off"}
}
