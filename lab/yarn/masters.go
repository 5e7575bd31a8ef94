package yarn

import (
	"context"
	"strconv"
)

// Masters is one process that is the application master of many jobs, so that a job
// begins without the start of a virtual machine. It may be used by several
// goroutines.
type Masters struct{ *conversation }

// Masters starts one; it ends with the cluster. ctx is only for the start.
func (c *clients) Masters(ctx context.Context) (*Masters, error) {
	t, err := c.converse(ctx, "masters", c.javaOfHadoop(192, "headrace.cluster.ShellMasters", c.confDir(), []string{c.o.Jars.Cluster}))
	return &Masters{t}, err
}

// Submit starts a job, whose name no other may have had.
func (m *Masters) Submit(job ShellJob) error { return m.say(job.Name, shellArguments(job)) }

// shellArguments returns those of our own application masters.
func shellArguments(job ShellJob) []string {
	return []string{"--name", job.Name, "--queue", orDefault(job.Queue, "default"), "--priority", strconv.Itoa(job.Priority),
		"--tasks", strconv.Itoa(orDefault(job.Containers, 1)), "--memory", strconv.Itoa(orDefault(job.Memory, 128)),
		"--command", job.Command}
}
