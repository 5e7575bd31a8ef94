package yarn

import "context"

// FileLoad is one process of Hadoop's own client that reads, writes and names files by many threads,
// of any file system of HDFS's protocols, as often as it is asked to. What it reads must be what it
// has written, byte by byte.
type FileLoad struct{ *conversation }

// A FileOrder is what a FileLoad is to do.
type FileOrder struct {
	// Name that no other has had.
	Name string `json:"name"`
	// Kind is write, read, names, load or delete.
	Kind string `json:"kind"`
	// Resources are files of configuration, beside the cluster's, and Properties more of it.
	Resources  []string          `json:"resources"`
	Properties map[string]string `json:"properties"`
	// Path is the directory that all is in.
	Path string `json:"path"`
	// Threads read or write a file each, of so many Bytes; or make, ask for, rename and delete so
	// many names each.
	Threads int   `json:"threads"`
	Bytes   int64 `json:"bytes"`
	Count   int   `json:"count"`
	// Readers and Writers of a load move a piece of 64 KB every so many milliseconds, for so many
	// seconds. Writers begin another file after Bytes.
	Readers int     `json:"readers"`
	Writers int     `json:"writers"`
	EveryMs int     `json:"everyMs"`
	Seconds float64 `json:"seconds"`
}

// FileReport is what was measured. Times are seconds.
type FileReport struct {
	Took   float64 `json:"took"`
	Bytes  int64   `json:"bytes"`
	Phases []Phase `json:"phases,omitempty"`
	// Held are the operations of a load that took longer than a tenth of a second.
	Held []Held `json:"held,omitempty"`
	// Errors are of a load: it goes on after them.
	Errors []string `json:"errors,omitempty"`
}

// A Phase is one kind of operation on names.
type Phase struct {
	What  string  `json:"what"`
	Count int     `json:"count"`
	Took  float64 `json:"took"`
	Half  float64 `json:"half"` // of the latencies are below
	Most  float64 `json:"most"` // of 100 are 99 below
	Max   float64 `json:"max"`
}

// Held is an operation that took long, of a reader or a writer.
type Held struct {
	Writer bool `json:"writer"`
	// AtMs is when it began, as others tell the time.
	AtMs int64   `json:"atMs"`
	Took float64 `json:"took"`
	What string  `json:"what"`
}

// FileLoad starts one; it ends with the cluster. ctx is only for the start.
func (c *clients) FileLoad(ctx context.Context) (*FileLoad, error) {
	t, err := c.converse(ctx, "fileload", c.javaOfHadoop(compiledHeap, "headrace.cluster.FileLoad", c.confDir(), []string{c.o.Jars.Cluster}))
	return &FileLoad{t}, err
}

// Do returns when it is done, and all that was read was right.
func (l *FileLoad) Do(ctx context.Context, o FileOrder) (FileReport, error) {
	if err := l.say(o.Name, o); err != nil {
		return FileReport{}, err
	}
	e, err := l.Await(ctx, o.Name, "finished")
	return e.Report, err
}
