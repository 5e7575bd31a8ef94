package migrate

import (
	"context"
	"fmt"
	"os"
	"slices"

	"headrace"
	"headrace/engine/yarn"
	"headrace/internal/linux"
	"headrace/proc"
	"headrace/proc/checkpoint"
	"headrace/proc/needs"
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
	Store    string
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
	// End ends what Take has begun, and is called once: without an error when the
	// checkpoint was restored, else with why it was not. In that case nothing of it may
	// have run, nor do so later. After proc.ErrState, which says that nobody has looked at it, it can
	// be taken again.
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
	for _, dir := range l.Roots() {
		roots = append(roots, Root{Path: dir, Owner: p.owner()})
	}
	return roots
}

func (p Parcel) open() (*checkpoint.Store, error) {
	return checkpoint.Open(p.Store, checkpoint.Options{Compress: p.Compress})
}

func (p Parcel) newest() (*checkpoint.Image, error) {
	store, err := p.open()
	if err != nil {
		return nil, err
	}
	images, err := store.Images(string(p.Task))
	if err != nil {
		return nil, err
	}
	if len(images) == 0 {
		return nil, fmt.Errorf("%w in %s", proc.ErrNoImage, p.Store)
	}
	im := images[len(images)-1]
	return im, im.Err
}

// wantedBy returns the files that a task needs: what it has open or mapped, and
// everything in its working directory.
func wantedBy(spec proc.Spec, n needs.Files) []Wanted {
	wanted := []Wanted{{Path: spec.Cwd, Tree: true}}
	for _, path := range slices.Concat(n.Open, n.Writing, n.Mapped) {
		wanted = append(wanted, Wanted{Path: path})
	}
	return wanted
}

// forget removes what an earlier daemon has fetched for the task, and not used.
func (p Parcel) forget() error {
	store, err := p.open()
	if err != nil {
		return err
	}
	return store.Remove(string(p.Task))
}
