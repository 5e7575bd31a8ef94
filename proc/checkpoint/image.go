package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"headrace/internal/linux"
)

const parentLink = "parent"

// An Image is a committed checkpoint of one task. It is a snapshot of what the
// manifest says; nothing of it changes later, but Collect and Remove may remove
// the files.
type Image struct {
	Task   string
	Seq    int // numbers ascend in the order of time
	Dir    string
	Parent int // the image that unchanged pages are in; 0: none, a full image
	Chain  int // how many images a restore reads; 1 for a full one

	// Bytes of pages: Total = Stored + Zero + Same. Stored pages are in this image
	// (before compression), zero ones nowhere, same ones in the parents.
	Total, Stored, Zero, Same int64
	// Size is the bytes of this image's files.
	Size int64

	Compressed bool
	TakenAt    time.Time
	Meta       []byte // as given to Commit

	// Err is not nil if the image cannot be used because its manifest is damaged
	// (then only Task, Seq and Dir are known) or an image of its chain is missing:
	// a *CorruptError, ErrVersion, or ErrUnreadable. That Err is nil says nothing about the
	// contents of the files: see Verify.
	Err error

	m      *manifest // nil when unreadable
	parent *Image    // nil for a full image
	store  *Store
}

// Images returns the committed images of a task, the oldest first, also those
// that are damaged (see Image.Err). A task that the store does not know has none.
func (s *Store) Images(task string) ([]*Image, error) {
	if err := checkTask(task); err != nil {
		return nil, err
	}
	images, err := s.images(task)
	if err = s.stillThere(err); err != nil {
		return nil, fmt.Errorf("checkpoints of task %s: %w", task, err)
	}
	return images, nil
}

func (s *Store) images(task string) ([]*Image, error) {
	seqs, err := s.seqs(task)
	if err != nil {
		return nil, err
	}
	var images []*Image
	known := make(map[int]*Image)
	for _, seq := range seqs {
		m, err := readManifest(s.imageDir(task, seq))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		im := s.newImage(task, seq, m, known[parentOf(m)])
		if err != nil {
			im.Err = im.corrupt(manifestName, err)
		}
		known[seq] = im
		images = append(images, im)
	}
	return images, nil
}

func parentOf(m *manifest) int {
	if m == nil {
		return 0
	}
	return m.Parent
}

// newImage makes an Image from its manifest, nil if that is unreadable, and the
// image that has the number of its parent, nil if there is none.
func (s *Store) newImage(task string, seq int, m *manifest, parent *Image) *Image {
	im := &Image{Task: task, Seq: seq, Dir: s.imageDir(task, seq), m: m, store: s}
	if m == nil {
		return im
	}
	im.Parent, im.Chain, im.Compressed = m.Parent, m.Chain, m.Compressed
	im.Total, im.Stored, im.Zero, im.Same = m.Total, m.Stored, m.Zero, m.Same
	im.TakenAt, im.Meta, im.Size, im.parent = m.TakenAt, m.Meta, m.size(), parent
	if err := im.checkChain(); err != nil {
		im.Err = im.corrupt("", err)
	}
	return im
}

// checkChain checks that the manifests of the image and its parent fit together.
func (im *Image) checkChain() error {
	m, p := im.m, im.parent
	switch {
	case m.Task != im.Task || m.Seq != im.Seq:
		return fmt.Errorf("the manifest is that of %s/%d", m.Task, m.Seq)
	case m.Parent == 0:
		return nil
	case p == nil:
		return fmt.Errorf("its parent, checkpoint %d, is missing", m.Parent)
	case p.Err != nil:
		return fmt.Errorf("its parent is damaged: %w", p.Err)
	case p.m.id != m.ParentID || p.Chain+1 != m.Chain || p.Compressed != m.Compressed:
		return fmt.Errorf("checkpoint %d is not the parent that it was made from", m.Parent)
	}
	return nil
}

// corrupt makes a CorruptError about a file of the image, or its directory; of an
// error that says nothing about the image, one that says so.
func (im *Image) corrupt(file string, err error) error {
	err = im.store.stillThere(err)
	switch {
	case errors.Is(err, ErrVersion), errors.Is(err, ErrUnreadable):
		return fmt.Errorf("checkpoint %d of task %s: %w", im.Seq, im.Task, err)
	case linux.Passing(err):
		return fmt.Errorf("checkpoint %d of task %s: %w: %w", im.Seq, im.Task, ErrUnreadable, err)
	}
	return &CorruptError{Task: im.Task, Seq: im.Seq, File: filepath.Join(im.Dir, file), Err: err}
}

// chain returns the images that a restore reads, the full one first.
func (im *Image) chain() []*Image {
	var c []*Image
	if im.parent != nil {
		c = im.parent.chain()
	}
	return append(c, im)
}

// size returns how many bytes the files hold, not counting holes.
func (m *manifest) size() int64 {
	var n int64
	for _, f := range m.Files {
		if f.Sums == "" || m.Compressed {
			n += f.Size
		}
	}
	if !m.Compressed {
		n += m.Stored
	}
	return n
}

// BytesToRead returns what must be read to bring the task back: the files of the
// whole chain.
func (im *Image) BytesToRead() int64 {
	var n int64
	for _, c := range im.chain() {
		n += c.Size
	}
	return n
}

// checkParentLink checks the link that criu restore follows.
func (im *Image) checkParentLink() error {
	got, err := os.Readlink(filepath.Join(im.Dir, parentLink))
	switch {
	case im.Parent == 0 && errors.Is(err, fs.ErrNotExist):
		return nil
	case im.Parent == 0:
		return im.corrupt(parentLink, errors.New("a full checkpoint must not have it"))
	case err != nil:
		return im.corrupt(parentLink, err)
	case got != parentTarget(im.Parent):
		return im.corrupt(parentLink, fmt.Errorf("leads to %s, want %s", got, parentTarget(im.Parent)))
	}
	return nil
}

func parentTarget(seq int) string { return filepath.Join("..", seqName(seq)) }
