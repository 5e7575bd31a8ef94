package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/zeebo/xxh3"
)

const (
	manifestName    = "manifest"
	manifestTmp     = "manifest.tmp"
	manifestMagic   = "headrace-checkpoint"
	manifestVersion = 1
	// maxManifest limits what is read; a process needs about a kilobyte.
	maxManifest = 64 << 20
)

// A manifest is the commit marker of an image: one line with manifestMagic, the
// version and the xxh3-128 hash of the rest, then the rest, JSON.
type manifest struct {
	Task     string    `json:"task"`
	Seq      int       `json:"seq"`
	Parent   int       `json:"parent,omitempty"`    // 0: full image
	ParentID string    `json:"parent_id,omitempty"` // hash in the parent's manifest
	Chain    int       `json:"chain"`               // images that a restore reads
	TakenAt  time.Time `json:"taken_at"`
	counts
	Compressed bool           `json:"compressed,omitempty"`
	NeedsFull  bool           `json:"needs_full,omitempty"` // the next one cannot be incremental
	Files      []manifestFile `json:"files"`
	Meta       []byte         `json:"meta,omitempty"`

	id string // hash of the JSON part, in hexadecimal
}

type manifestFile struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
	// Sum is the xxh3-128 hash of the contents, in hexadecimal; a pages file has
	// Sums instead, the name of its sums file.
	Sum  string `json:"sum,omitempty"`
	Sums string `json:"sums,omitempty"`
	// RawSize is the size of a pages file as CRIU sees it.
	RawSize int64 `json:"raw_size,omitempty"`
}

func (m *manifest) file(name string) *manifestFile {
	for i := range m.Files {
		if m.Files[i].Name == name {
			return &m.Files[i]
		}
	}
	return nil
}

// encode also sets m.id.
func (m *manifest) encode() ([]byte, error) {
	body, err := json.MarshalIndent(m, "", "\t")
	if err != nil {
		return nil, err
	}
	b := signed(append(body, '\n'))
	m.id = hexSum(xxh3.Hash128(b[bytes.IndexByte(b, '\n')+1:]))
	return b, nil
}

func signed(body []byte) []byte {
	return append(fmt.Appendf(nil, "%s %d %s\n", manifestMagic, manifestVersion, hexSum(xxh3.Hash128(body))), body...)
}

func hexSum(h xxh3.Uint128) string { return fmt.Sprintf("%016x%016x", h.Hi, h.Lo) }

func parseManifest(b []byte) (*manifest, error) {
	head, body, ok := bytes.Cut(b, []byte{'\n'})
	var version int
	var id string
	if n, _ := fmt.Sscanf(string(head), manifestMagic+" %d %32s", &version, &id); !ok || n < 1 {
		return nil, errors.New("not a manifest")
	}
	if version > manifestVersion {
		return nil, fmt.Errorf("%w: format %d, known is %d", ErrVersion, version, manifestVersion)
	}
	if version < 1 || string(head) != fmt.Sprintf("%s %d %s", manifestMagic, version, id) {
		return nil, errors.New("malformed first line")
	}
	if got := hexSum(xxh3.Hash128(body)); got != id {
		return nil, fmt.Errorf("hash is %s, want %s", got, id)
	}
	m := &manifest{id: id}
	if err := json.Unmarshal(body, m); err != nil {
		return nil, err
	}
	return m, m.check()
}

// check finds contradictions in a manifest that is as it was written, but maybe
// not by us.
func (m *manifest) check() error {
	switch {
	case checkTask(m.Task) != nil || m.Seq < 1 || m.Seq > maxSeq:
		return fmt.Errorf("impossible name %q/%d", m.Task, m.Seq)
	case m.Parent < 0 || m.Parent >= m.Seq || m.Chain < 1 || (m.Parent == 0) != (m.Chain == 1):
		return fmt.Errorf("impossible parent %d or chain of %d", m.Parent, m.Chain)
	case m.Stored < 0 || m.Zero < 0 || m.Same < 0 || m.Total != m.Stored+m.Zero+m.Same:
		return fmt.Errorf("contradictory numbers of bytes %+v", m.counts)
	}
	return m.checkFiles()
}

func (m *manifest) checkFiles() error {
	summed := make(map[string]bool, len(m.Files)) // whether it has a checksum of its own
	for _, f := range m.Files {
		if _, twice := summed[f.Name]; twice || !plainName(f.Name) || f.Size < 0 || f.RawSize < 0 {
			return fmt.Errorf("impossible file %q of %d bytes", f.Name, f.Size)
		}
		summed[f.Name] = f.Sum != ""
	}
	for _, f := range m.Files {
		if (f.Sum == "") == (f.Sums == "") || f.Sums != "" && !summed[f.Sums] {
			return fmt.Errorf("file %q has no checksum", f.Name)
		}
	}
	return nil
}

func plainName(s string) bool {
	return s != "" && s != "." && s != ".." && s != manifestName && !strings.ContainsAny(s, "/\x00")
}

// readManifest returns fs.ErrNotExist when dir holds no committed image.
func readManifest(dir string) (*manifest, error) {
	f, err := os.Open(filepath.Join(dir, manifestName))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxManifest {
		return nil, fmt.Errorf("longer than %d bytes", maxManifest)
	}
	return parseManifest(b)
}
