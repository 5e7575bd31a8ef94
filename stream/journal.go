package stream

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"headrace/fileset"
	"headrace/internal/crash"
	"headrace/internal/linux"
	"headrace/stream/deal"
	"headrace/stream/protocol"
)

// A stream has a directory with two files: what it deals, written once but for ends of
// files, and a journal of what became of its consumers' attempts, appended to.
const (
	planName    = "plan"
	journalName = "journal"
)

// foldAfter is how much is appended to a journal, beside as much as there was, before
// it is written anew with what still matters of it.
const foldAfter = 256 << 10

// journal appends entries. It is used by one goroutine at a time.
type journal struct {
	f    *os.File
	path string
	// size is that of the file, folded what it was when it was opened or written anew.
	size, folded int64
	settled      bool // the file's name is durable
	torn         bool // there may be a part of an entry behind size
}

// openJournal opens or creates it and reads what is there; a torn end is cut
// off.
func openJournal(dir string) (*journal, []*deal.Entry, error) {
	j := &journal{path: filepath.Join(dir, journalName)}
	f, err := os.OpenFile(j.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, err
	}
	j.f = f
	var all deal.Fold
	size, err := deal.ReadEntries(j.f, all.Add)
	if err == nil {
		err = j.f.Truncate(size)
	}
	if err == nil {
		err = j.settle()
	}
	if err != nil {
		j.f.Close()
		return nil, nil, fmt.Errorf("read %s: %w", j.path, err)
	}
	j.size, j.folded = size, size
	return j, all.Entries(), nil
}

// settle makes the file's name durable.
func (j *journal) settle() error {
	if j.settled {
		return nil
	}
	err := linux.SyncDir(filepath.Dir(j.path))
	j.settled = err == nil
	return err
}

// write makes an entry durable.
func (j *journal) write(e *deal.Entry) error {
	if err := j.settle(); err != nil {
		return err
	}
	if j.torn { // nothing half-written may stay before later entries
		if err := j.f.Truncate(j.size); err != nil {
			return fmt.Errorf("write %s: %w", j.path, err)
		}
		j.torn = false
	}
	b := e.Encode()
	crash.Here("stream-journal-before")
	if err := writeDurably(j.f, b); err != nil {
		terr := j.f.Truncate(j.size)
		j.torn = terr != nil
		return fmt.Errorf("write %s: %w", j.path, errors.Join(err, terr))
	}
	crash.Here("stream-journal-after")
	j.size += int64(len(b))
	return nil
}

// grown tells whether the journal should be folded.
func (j *journal) grown() bool { return j.size > 2*j.folded+foldAfter }

// fold writes the journal anew, with what Replay needs of it. It is as it was if that
// fails, and is not tried again before it has grown as much again.
func (j *journal) fold() error {
	defer func() { j.folded = j.size }()
	var all deal.Fold
	if _, err := deal.ReadEntries(io.NewSectionReader(j.f, 0, j.size), all.Add); err != nil {
		return fmt.Errorf("read %s: %w", j.path, err)
	}
	var b []byte
	for _, e := range all.Entries() {
		b = append(b, e.Encode()...)
	}
	f, err := os.OpenFile(j.path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	err = writeDurably(f, b)
	if err == nil {
		err = os.Rename(f.Name(), j.path)
	}
	if err != nil {
		f.Close()
		os.Remove(j.path + ".new")
		return err
	}
	j.f.Close()
	j.f, j.size, j.settled, j.torn = f, int64(len(b)), false, false
	return j.settle()
}

func writeDurably(f *os.File, b []byte) error {
	if _, err := f.Write(b); err != nil {
		return err
	}
	return f.Sync()
}

// planHead is the first line of a plan file, planLine one line for each file.
type planHead struct {
	Version int    `json:"version"`
	Spec    Spec   `json:"spec"`
	Boot    string `json:"boot,omitempty"`
}

type planLine struct {
	Path []byte `json:"path"` // may be anything but UTF-8
	fileset.Identity
	End   uint64         `json:"end,omitempty"`
	Codec protocol.Codec `json:"codec,omitempty"`
}

const planVersion = 1

// errNewerPlan is of a plan that is whole, and of a newer version of this program.
var errNewerPlan = errors.New("it waits for the version of headrace that has written it")

// writePlan makes spec and plan durable in dir. The plan's units follow from the
// files and are not written.
func writePlan(dir string, spec *Spec, p *deal.Plan) error {
	boot, err := linux.BootID()
	if err != nil {
		return err
	}
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	enc := json.NewEncoder(z)
	err = enc.Encode(planHead{planVersion, *spec, cmp.Or(p.Boot, boot)})
	for i := range p.Files {
		if err != nil {
			return err
		}
		e := &p.Files[i]
		err = enc.Encode(planLine{[]byte(e.Path), e.Identity, e.End, e.Codec})
	}
	if err := errors.Join(err, z.Close()); err != nil {
		return err
	}
	return linux.WriteFileDurably(filepath.Join(dir, planName), b.Bytes(), 0o600)
}

// readPlan reads what writePlan wrote.
func readPlan(dir string) (*Spec, *deal.Plan, error) {
	f, err := os.Open(filepath.Join(dir, planName))
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, nil, err
	}
	defer z.Close()
	dec := json.NewDecoder(z)
	var head planHead
	if err := dec.Decode(&head); err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	switch {
	case head.Version > planVersion:
		return nil, nil, fmt.Errorf("%w: %s has version %d; this program reads %d", errNewerPlan, f.Name(), head.Version, planVersion)
	case head.Version != planVersion: // a daemon that reads it will hardly come again
		return nil, nil, fmt.Errorf("%s has version %d; this program reads %d", f.Name(), head.Version, planVersion)
	}
	boot, err := linux.BootID()
	if err != nil {
		return nil, nil, err
	}
	p := &deal.Plan{Rule: head.Spec.Rule}
	if head.Boot != boot {
		p.Boot = cmp.Or(head.Boot, "unknown") // of before it was written down
	}
	for {
		var line planLine
		if err := dec.Decode(&line); err == io.EOF {
			return &head.Spec, p, nil
		} else if err != nil {
			return nil, nil, fmt.Errorf("read %s: %w", f.Name(), err)
		}
		if err := p.Add(string(line.Path), line.Identity, line.Codec); err != nil {
			return nil, nil, err
		}
		p.Files[len(p.Files)-1].End = line.End
	}
}
