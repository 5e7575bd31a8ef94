package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// textSources returns the trees that are looked for real text when none is given.
func textSources() []string {
	var dirs []string
	if out, err := exec.Command("go", "env", "GOROOT").Output(); err == nil {
		dirs = append(dirs, filepath.Join(strings.TrimSpace(string(out)), "src"))
	}
	return append(dirs, "/usr/local/go/src", "/usr/share/doc", "/usr/include", "/usr/share/perl", "/usr/lib/python3", "/usr/share")
}

const (
	// enoughText is how much different text is wanted before it is repeated.
	enoughText = 64 << 20
	leastText  = 1 << 20
	mostFile   = 4 << 20
)

var textEndings = []string{".go", ".c", ".h", ".cc", ".cpp", ".java", ".py", ".pl", ".pm", ".sh", ".s", ".txt", ".md", ".rst", ".html", ".xml", ".json", ".tex", ".el"}

// text is a selection of real text files.
type text struct {
	from  string // the directories, for people
	files []string
	bytes int64
}

// findText selects files from tree, or from the usual places when it is empty.
func findText(tree string) (text, error) {
	sources := textSources()
	if tree != "" {
		sources = []string{tree}
	}
	var t text
	for _, dir := range sources {
		before := t.bytes
		if err := t.gather(dir); err != nil {
			return t, err
		}
		if t.bytes > before {
			t.from = strings.TrimPrefix(t.from+", "+dir, ", ")
		}
		if t.bytes >= enoughText {
			return t, nil
		}
	}
	if t.bytes < leastText {
		return t, fmt.Errorf("found only %d bytes of text in %s: name a directory with some in it", t.bytes, strings.Join(sources, ", "))
	}
	return t, nil
}

// gather adds the text files of a tree until there is enough. What cannot be read
// is left out.
func (t *text) gather(dir string) error {
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			if e != nil && e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !e.Type().IsRegular() || !slices.Contains(textEndings, filepath.Ext(path)) || slices.Contains(t.files, path) {
			return nil
		}
		info, err := e.Info()
		if err != nil || info.Size() == 0 || info.Size() > mostFile {
			return nil
		}
		t.files = append(t.files, path)
		t.bytes += info.Size()
		if t.bytes >= 4*enoughText {
			return fs.SkipAll
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// write makes a file of size bytes: the text, over and over. tell gets the share
// done.
func (t text) write(ctx context.Context, path string, size int64, tell func(share float64)) error {
	once, err := t.join()
	if err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	const chunk = 4 << 20
	for done := int64(0); done < size && err == nil; {
		if err = ctx.Err(); err != nil {
			break
		}
		at := done % int64(len(once))
		n := min(chunk, size-done, int64(len(once))-at)
		_, err = f.Write(once[at : at+n])
		done += n
		tell(float64(done) / float64(size))
	}
	if err == nil {
		// Else the first run would be disturbed by what is still being written.
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// join reads all files, leaving out those that are not text after all.
func (t text) join() ([]byte, error) {
	var b bytes.Buffer
	for _, path := range t.files {
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		before := b.Len()
		_, err = io.Copy(&b, f)
		f.Close()
		if err != nil || bytes.IndexByte(b.Bytes()[before:], 0) >= 0 {
			b.Truncate(before)
			continue
		}
		b.WriteByte('\n')
	}
	if b.Len() < leastText {
		return nil, fmt.Errorf("only %d bytes of text could be read from %s", b.Len(), t.from)
	}
	return b.Bytes(), nil
}
