package yarn

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"headrace/wire"
	"headrace/wire/wireconnect"
)

// Submitter is one process that submits many jobs of MapReduce and waits for them, makes
// their inputs, and has HDFS cache them, so that none of it begins with the start of a virtual machine. It may
// be used by several goroutines.
type Submitter struct{ *conversation }

// A SubmitterOrder is a job of MapReduce, an input to be made, or what HDFS is to cache.
type SubmitterOrder struct {
	// Name that no other has had.
	Name string `json:"name"`
	// Kind is of a job ratios, wordcount or sort, of an input make-bytes, make-text or
	// make-sequence, of what HDFS caches cache or uncache.
	Kind string `json:"kind"`
	// Inputs are a job's files; of an input the one that is made; those to cache.
	Inputs []string `json:"inputs"`
	// Output is a job's directory.
	Output     string            `json:"output"`
	Properties map[string]string `json:"properties"`
	Reduces    int               `json:"reduces"`
	// Bytes and Seed of an input.
	Bytes int64  `json:"bytes"`
	Seed  uint64 `json:"seed"`
}

// Submitter starts one; it ends with the cluster. classPath is before everything else.
// ctx is only for the start.
func (c *clients) Submitter(ctx context.Context, classPath ...string) (*Submitter, error) {
	path := slices.Concat(classPath, c.o.Jars.hadoopClasses().path, []string{c.o.Jars.Cluster, filepath.Join(c.o.Jars.Examples, "*")})
	t, err := c.converse(ctx, "submitter", c.javaWith(384, "headrace.cluster.Submitter", c.confDir(), path))
	return &Submitter{t}, err
}

// Make makes an input and returns when it is there.
func (s *Submitter) Make(ctx context.Context, o SubmitterOrder) error {
	if err := s.say(o.Name, o); err != nil {
		return err
	}
	_, err := s.Await(ctx, o.Name, "made")
	return err
}

// Cache has HDFS keep one replica of each block of the files in memory, by directives for its own
// cache, and returns when the NameNode knows of them. name is one that no other order has had. It
// takes HDFSOptions.Cache.
func (s *Submitter) Cache(ctx context.Context, name string, paths []string) error {
	return s.Make(ctx, SubmitterOrder{Name: name, Kind: "cache", Inputs: paths})
}

// Uncache withdraws what Cache has asked for, and returns when no DataNode holds anything.
func (s *Submitter) Uncache(ctx context.Context, name string) error {
	return s.Make(ctx, SubmitterOrder{Name: name, Kind: "uncache"})
}

// Run submits a job and returns when it has ended, well.
func (s *Submitter) Run(ctx context.Context, o SubmitterOrder) (Event, error) {
	if err := s.say(o.Name, o); err != nil {
		return Event{}, err
	}
	e, err := s.Await(ctx, o.Name, "finished")
	if err == nil && !e.Good {
		err = fmt.Errorf("job %s has failed (%s)", o.Name, e.Application)
	}
	return e, err
}

// Socket returns that of the node daemon on machine i, as others find it.
func (all machines) Socket(i int) string { return all[i].socket() }

// Pinned returns how many bytes the node daemon on machine i keeps in memory.
func (all machines) Pinned(ctx context.Context, i int) (int64, error) {
	client := wire.NewHTTPClient(all[i].socket())
	defer client.CloseIdleConnections()
	info, err := wireconnect.NewNodeServiceClient(client, wire.BaseURL).Info(ctx, &wire.InfoRequest{})
	if err != nil {
		return 0, err
	}
	return info.Pinned, nil
}
