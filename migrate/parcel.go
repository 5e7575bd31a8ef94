package migrate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"headrace"
	"headrace/engine/yarn"
	"headrace/internal/linux"
	"headrace/proc"
	"headrace/proc/checkpoint"
	supervisor "headrace/proc/shim"
)

// A Parcel is a checkpoint for another machine, or what one is asked for with.
type Parcel struct {
	// ID names it among all that were ever sent; see NewID.
	ID          string
	Task        headrace.TaskID
	Application string
	User        string
	Spec        proc.Spec
	// Store is the directory of the checkpoint store that it comes from or goes to.
	Store string
	// StoreID is the name of the store that is meant, as checkpoint.Options.ID.
	StoreID  string
	Compress bool
	// Again: an earlier daemon may have begun to take one for the task.
	Again bool
}

// Taken is a checkpoint that has come.
type Taken struct {
	// From is the machine and the task that it was made of, for people.
	From string
	// TaskDir is proc.RestoreOptions.MovedFrom.
	TaskDir string
	Image   *checkpoint.Image
	// Use must have succeeded before a restore is begun, as Claim.Use. It is called once.
	Use func(ctx context.Context) error
	// End ends what Take has begun, and is called once: without an error when the
	// checkpoint was restored, else with why it was not. In that case nothing of it may
	// have run, nor do so later. After proc.ErrState, which says that nobody has looked at it, and after
	// proc.ErrNotNow and proc.ErrStalled, it can be taken again, here or elsewhere.
	End func(ctx context.Context, failed error) error
}

// owner returns whose rights the task's files are read and made with.
func (p Parcel) owner() *linux.Credentials {
	if os.Geteuid() != 0 {
		return nil
	}
	owner := p.Spec.Credentials()
	return &owner
}

// launch returns the command as it is compared with its relaunch. Localized files are
// looked at with the task's own rights.
func (p Parcel) launch() (yarn.Launch, error) {
	resources, err := yarn.Resources(p.Spec.Cwd, p.owner())
	return yarn.Launch{App: p.Application, User: p.User, Argv: p.Spec.Argv, Env: p.Spec.Env, Resources: resources}, err
}

func (p Parcel) roots(l yarn.Launch) []Root {
	var roots []Root
	_, logs := l.Dirs()
	for _, dir := range l.Roots() {
		roots = append(roots, Root{Path: dir, Owner: p.owner(), Grows: slices.Contains(logs, dir)})
	}
	return roots
}

func (p Parcel) open() (*checkpoint.Store, error) {
	s, err := checkpoint.Open(p.Store, checkpoint.Options{Compress: p.Compress, ID: p.StoreID})
	return s, notNow(err)
}

// notNow has what is to be done in a store wait while that is not there, or somebody else works on the same task: proc.ErrNotNow.
func notNow(err error) error {
	for _, passing := range []error{checkpoint.ErrNotThere, checkpoint.ErrUnreadable, checkpoint.ErrBusy} {
		if errors.Is(err, passing) && !errors.Is(err, proc.ErrNotNow) {
			return fmt.Errorf("%w: %w", proc.ErrNotNow, err)
		}
	}
	return err
}

// newest returns the newest checkpoint. The error is proc.ErrNoImage if there is none, and proc.ErrNotNow if that is not known.
func (p Parcel) newest() (*checkpoint.Image, error) {
	var images []*checkpoint.Image
	store, err := p.open()
	if err == nil {
		images, err = store.Images(string(p.Task))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", proc.ErrNotNow, err)
	}
	if len(images) == 0 {
		return nil, fmt.Errorf("%w in %s", proc.ErrNoImage, p.Store)
	}
	im := images[len(images)-1]
	return im, notNow(im.Err)
}

// Began returns the directory of the task that the newest checkpoint in the store was made of (Taken.TaskDir), as
// its processes know it; empty: there is none that tells.
func (p Parcel) Began() string {
	im, err := p.newest()
	if err != nil {
		return ""
	}
	of, err := supervisor.PortableOf(im.Meta)
	if err != nil {
		return ""
	}
	return of.TaskDir
}

// wanted returns the files that a task needs: what it has open or mapped, and everything in the directories that YARN
// gave it, on each disk for files and logs. It knows them by the name of the container that it began as.
func (p Parcel) wanted(of supervisor.Portable, l yarn.Launch) ([]Wanted, error) {
	began := filepath.Base(of.TaskDir)
	var wanted []Wanted
	if began == string(p.Task) {
		wanted = append(wanted, Wanted{Path: p.Spec.Cwd, Tree: true})
	}
	for _, root := range p.roots(l) {
		switch _, err := inspect(root, began); {
		case err == nil:
			wanted = append(wanted, Wanted{Path: filepath.Join(root.Path, began), Tree: true})
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	for _, path := range slices.Concat(of.Needs.Open, of.Needs.Writing, of.Needs.Mapped) {
		wanted = append(wanted, Wanted{Path: path})
	}
	return wanted, nil
}

// noneStays fails if the application has files on this machine that are in no container's directory and are not carried:
// nobody can tell whose they are, and the container would go on without them.
func (p Parcel) noneStays(ctx context.Context, c *Carried, l yarn.Launch) error {
	carried := make(map[string]bool, len(c.files))
	for _, f := range c.files {
		carried[f.Path] = true
	}
	local, _ := l.Dirs()
	for _, dir := range local {
		root := Root{Path: dir, Owner: p.owner()}
		names, err := root.names(".")
		if err != nil {
			return err
		}
		for _, name := range names {
			if name == "filecache" || strings.HasPrefix(name, "container_") { // YARN's own, and those of containers
				continue
			}
			path := filepath.Join(dir, name)
			there, err := Carry(ctx, []Wanted{{Path: path, Tree: true}}, []Root{root})
			if err != nil {
				return err
			}
			for _, f := range there.files {
				if !carried[f.Path] && strings.HasPrefix(f.Path+"/", path+"/") {
					return fmt.Errorf("the application has %s, which is in no container's directory: it would stay on this machine, and the container may need it", f.Path)
				}
			}
		}
	}
	return nil
}

// ShowLogs gives the files in the directories for logs of the container that a task began as, on another machine in taskDir
// (Taken.TaskDir), a second name in those of the container that it is here, the only ones that YARN shows and collects.
// What has the name there already is left. Call it when the task was restored, and for what was made since when it has ended.
func (p Parcel) ShowLogs(taskDir string) error {
	_, logs := yarn.Launch{Env: p.Spec.Env}.Dirs()
	var errs []error
	for _, dir := range logs {
		root := Root{Path: dir, Owner: p.owner()}
		errs = append(errs, root.as(func() error { return linkAll(root, filepath.Base(taskDir), string(p.Task)) }))
	}
	return errors.Join(errs...)
}

// Clear removes what lies here, beside its logs, of the container that a task began as, on another machine in taskDir
// (Taken.TaskDir). No NodeManager knows of it, and while it is here the task cannot come again. Call it when the task has left or ended.
func (p Parcel) Clear(taskDir string) error {
	local, _ := yarn.Launch{Env: p.Spec.Env}.Dirs()
	began := filepath.Base(taskDir)
	if began == string(p.Task) {
		return nil
	}
	var errs []error
	for _, dir := range local {
		errs = append(errs, Root{Path: dir, Owner: p.owner()}.as(func() error {
			r, err := os.OpenRoot(dir)
			if errors.Is(err, fs.ErrNotExist) { // its application has ended
				return nil
			}
			if err != nil {
				return err
			}
			defer r.Close()
			return r.RemoveAll(began)
		}))
	}
	return errors.Join(errs...)
}

// linkAll gives the regular files in one directory below a root the same names in another one. Directories that are
// not there have none, and are given none.
func linkAll(root Root, from, to string) error {
	if from == to {
		return nil
	}
	source, err := root.at(from, unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := root.at(to, unix.O_PATH|unix.O_DIRECTORY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer target.Close()
	entries, err := source.ReadDir(-1)
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		lerr := unix.Linkat(int(source.Fd()), e.Name(), int(target.Fd()), e.Name(), 0)
		if lerr != nil && !errors.Is(lerr, fs.ErrExist) && !errors.Is(lerr, fs.ErrNotExist) {
			err = errors.Join(err, &os.LinkError{Op: "link", Old: filepath.Join(source.Name(), e.Name()), New: filepath.Join(target.Name(), e.Name()), Err: lerr})
		}
	}
	return err
}

// forget removes what an earlier daemon has fetched for the task, and not used.
func (p Parcel) forget() error {
	store, err := p.open()
	if err != nil {
		return err
	}
	return notNow(store.Remove(string(p.Task)))
}
