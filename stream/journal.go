package stream

import (
	"bytes"
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

// A stream has a directory with two files: what it deals, written once, and a
// journal of what became of its consumers' attempts, appended to.
const (
	planName    = "plan"
	journalName = "journal"
)

// journal appends entries. It is used by one goroutine at a time.
type journal struct{ f *os.File }

// openJournal opens or creates it and reads what is there; a torn end is cut
// off.
func openJournal(dir string) (*journal, []deal.Entry, error) {
	f, err := os.OpenFile(filepath.Join(dir, journalName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, err
	}
	entries, size, err := deal.ReadEntries(f)
	if err == nil {
		err = f.Truncate(size)
	}
	if err == nil {
		_, err = f.Seek(size, io.SeekStart)
	}
	if err == nil {
		err = linux.SyncDir(dir)
	}
	if err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	return &journal{f}, entries, nil
}

// write makes an entry durable.
func (j *journal) write(e *deal.Entry) error {
	b := e.Encode()
	at, err := j.f.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	crash.Here("stream-journal-before")
	if _, err = j.f.Write(b); err == nil {
		err = j.f.Sync()
	}
	if err != nil {
		// Nothing half-written may stay before later entries.
		terr := j.f.Truncate(at)
		if terr == nil {
			_, terr = j.f.Seek(at, io.SeekStart)
		}
		return fmt.Errorf("write %s: %w", j.f.Name(), errors.Join(err, terr))
	}
	crash.Here("stream-journal-after")
	return nil
}

// planHead is the first line of a plan file, planLine one line for each file.
type planHead struct {
	Version int  `json:"version"`
	Spec    Spec `json:"spec"`
}

type planLine struct {
	Path []byte `json:"path"` // may be anything but UTF-8
	fileset.Identity
	Codec protocol.Codec `json:"codec,omitempty"`
}

const planVersion = 1

// writePlan makes spec and plan durable in dir. The plan's units follow from the
// files and are not written.
func writePlan(dir string, spec *Spec, p *deal.Plan) error {
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	enc := json.NewEncoder(z)
	err = enc.Encode(planHead{planVersion, *spec})
	for i := range p.Files {
		if err != nil {
			return err
		}
		e := &p.Files[i]
		err = enc.Encode(planLine{[]byte(e.Path), e.Identity, e.Codec})
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
	if head.Version != planVersion {
		return nil, nil, fmt.Errorf("%s has version %d; this program reads %d", f.Name(), head.Version, planVersion)
	}
	p := &deal.Plan{Rule: head.Spec.Rule}
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
	}
}
