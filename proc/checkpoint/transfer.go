package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"headrace/internal/crash"
	"headrace/internal/linux"
)

// importedManifest is what the manifest of another store is called until the image
// is committed in this one.
const importedManifest = "imported"

// Export calls do with every file of the image and of those that its restore reads,
// the full one first, under the names that Import expects: SEQUENCE/FILE. Files may
// have holes. Until it returns the task cannot be dumped, collected or removed. It
// does not check the contents: see Verify.
func (im *Image) Export(do func(name string, f *os.File) error) error {
	if im.Err != nil {
		return im.Err
	}
	lock, err := im.store.lock(context.Background(), im.Task, unix.LOCK_SH)
	if err != nil {
		return fmt.Errorf("export checkpoint %d of task %s: %w", im.Seq, im.Task, err)
	}
	defer lock.unlock()
	for _, c := range im.chain() {
		for _, f := range c.m.Files {
			r, err := c.openFile(f)
			if err != nil {
				return err
			}
			err = do(path.Join(seqName(c.Seq), f.Name), r)
			r.Close()
			if err != nil {
				return err
			}
		}
		if err := c.exportManifest(do); err != nil {
			return err
		}
	}
	return nil
}

func (im *Image) exportManifest(do func(name string, f *os.File) error) error {
	r, err := os.Open(filepath.Join(im.Dir, manifestName))
	if err != nil {
		return im.corrupt(manifestName, err)
	}
	defer r.Close()
	return do(path.Join(seqName(im.Seq), manifestName), r)
}

// Import makes the newest image that was exported an image of a task of this store,
// whatever the task was called where it was made, in place of all images that the
// task may have. write is given a function that makes the files; it closes them.
// When Import returns, everything is durable. It does not check the contents of
// files that the manifests tell of: see Image.Verify.
func (s *Store) Import(ctx context.Context, task string, write func(create func(name string) (*os.File, error)) error) (*Image, error) {
	im, err := s.importImages(ctx, task, write)
	if err != nil {
		return nil, fmt.Errorf("import a checkpoint for task %s: %w", task, s.stillThere(err))
	}
	return im, nil
}

func (s *Store) importImages(ctx context.Context, task string, write func(create func(name string) (*os.File, error)) error) (*Image, error) {
	if err := checkTask(task); err != nil {
		return nil, err
	}
	if err := s.makeTaskDir(task); err != nil {
		return nil, err
	}
	lock, err := s.lock(ctx, task, unix.LOCK_EX)
	if err != nil {
		return nil, err
	}
	defer lock.unlock()
	if err := s.removeExcept(task, nil); err != nil {
		return nil, err
	}
	err = write(func(name string) (*os.File, error) { return s.createImported(task, name) })
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = s.commitImported(task)
	}
	if err != nil {
		return nil, errors.Join(err, s.removeExcept(task, nil))
	}
	images, err := s.Images(task)
	if err != nil {
		return nil, err
	}
	if len(images) == 0 {
		return nil, errors.New("there was no image")
	}
	newest := images[len(images)-1]
	return newest, newest.Err
}

func (s *Store) createImported(task, name string) (*os.File, error) {
	dir, file, _ := strings.Cut(name, "/")
	seq, err := strconv.Atoi(dir)
	if err != nil || seq < 1 || seq > maxSeq || dir != seqName(seq) || !plainName(file) && file != manifestName || file == importedManifest || file == manifestTmp || file == parentLink {
		return nil, fmt.Errorf("%.100q is not the name of a file of an image", name)
	}
	if file == manifestName {
		file = importedManifest
	}
	path := s.imageDir(task, seq)
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	return os.OpenFile(filepath.Join(path, file), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

// commitImported gives the images their manifests, the newest first: until the last
// of them is there no image has all of its chain, so that none can be restored, and
// the next Import removes them.
func (s *Store) commitImported(task string) error {
	seqs, err := s.seqs(task)
	if err != nil {
		return err
	}
	slices.Sort(seqs)
	known := make(map[int]adopted)
	for _, seq := range seqs {
		if known[seq], err = s.adopt(task, seq, known); err != nil {
			return fmt.Errorf("image %d: %w", seq, err)
		}
	}
	for _, seq := range slices.Backward(seqs) {
		crash.Here("checkpoint.import")
		if err := publishManifest(s.imageDir(task, seq), known[seq]); err != nil {
			return fmt.Errorf("image %d: %w", seq, err)
		}
	}
	return linux.SyncDir(s.taskDir(task))
}

// adopted is an image that has become one of another task.
type adopted struct {
	m       *manifest
	encoded []byte
	was     string // its hash before
}

// adopt makes a new manifest of an image. Those of older images are known.
func (s *Store) adopt(task string, seq int, known map[int]adopted) (adopted, error) {
	dir := s.imageDir(task, seq)
	b, err := os.ReadFile(filepath.Join(dir, importedManifest))
	if err != nil {
		return adopted{}, err
	}
	m, err := parseManifest(b)
	if err != nil {
		return adopted{}, err
	}
	if m.Seq != seq {
		return adopted{}, fmt.Errorf("the manifest is that of image %d", m.Seq)
	}
	a := adopted{m: m, was: m.id}
	m.Task = task
	if m.Parent != 0 {
		parent, ok := known[m.Parent]
		if !ok || parent.was != m.ParentID {
			return a, fmt.Errorf("image %d, its parent, did not come with it", m.Parent)
		}
		m.ParentID = parent.m.id
		if err := os.Symlink(parentTarget(m.Parent), filepath.Join(dir, parentLink)); err != nil {
			return a, err
		}
	}
	if a.encoded, err = m.encode(); err != nil {
		return a, err
	}
	return a, os.Remove(filepath.Join(dir, importedManifest))
}

// publishManifest makes an image's files durable, and then its manifest.
func publishManifest(dir string, a adopted) error {
	for _, f := range a.m.Files {
		if err := syncFile(filepath.Join(dir, f.Name)); err != nil {
			return err
		}
	}
	if err := writeDurable(filepath.Join(dir, manifestTmp), a.encoded); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(dir, manifestTmp), filepath.Join(dir, manifestName)); err != nil {
		return err
	}
	return linux.SyncDir(dir)
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
