package solo

import (
	"context"
	"errors"
	"path/filepath"

	"headrace"
	"headrace/proc"
	"headrace/proc/checkpoint"
	supervisor "headrace/proc/shim"
)

// runtimeOf adapts package proc to what the loop needs.
type runtimeOf struct{ *proc.Runtime }

func (r runtimeOf) Watch(silent func(headrace.TaskID, error)) { r.Silent = silent }

func (r runtimeOf) Start(ctx context.Context, spec proc.Spec, stdio proc.Stdio) (Task, error) {
	return orNil(r.StartWith(ctx, spec, stdio))
}

func (r runtimeOf) Hold(ctx context.Context, spec proc.Spec, stdio proc.Stdio) (Task, error) {
	return orNil(r.Runtime.Hold(ctx, spec, stdio))
}

func (r runtimeOf) Attach(ctx context.Context, id headrace.TaskID) (Task, error) {
	return orNil(r.Runtime.Attach(ctx, id))
}

func (r runtimeOf) Restore(ctx context.Context, spec proc.Spec, o proc.RestoreOptions) (Task, proc.RestoreResult, error) {
	t, res, err := r.Runtime.Restore(ctx, spec, o)
	live, err := orNil(t, err)
	return live, res, err
}

// orNil has an error come without a task: an interface with a nil pointer in it would not be nil.
func orNil(t *proc.Task, err error) (Task, error) {
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (r runtimeOf) Logs(id headrace.TaskID) (stdout, stderr string) {
	dir := r.TaskDir(id)
	return filepath.Join(dir, "stdout"), filepath.Join(dir, "stderr")
}

// storeImages adapts package checkpoint.
type storeImages struct{}

// measureSize is what the bandwidth of a store is measured with.
const measureSize = 32 << 20

func (storeImages) Latest(dir, storeID string, id headrace.TaskID) (ImageInfo, bool, error) {
	s, err := checkpoint.Open(dir, checkpoint.Options{ID: storeID})
	if err != nil {
		return ImageInfo{}, false, err
	}
	images, err := s.Images(string(id))
	if err != nil {
		return ImageInfo{}, false, err
	}
	for i := len(images) - 1; i >= 0; i-- {
		im := images[i]
		switch {
		case im.Err == nil:
			return imageInfo(im), true, nil
		case errors.Is(im.Err, checkpoint.ErrUnreadable), errors.Is(im.Err, checkpoint.ErrVersion):
			return ImageInfo{}, false, im.Err
		}
	}
	return ImageInfo{}, false, nil
}

func imageInfo(im *checkpoint.Image) ImageInfo {
	return ImageInfo{
		Seq: im.Seq, Chain: im.Chain, Stored: im.Stored, Total: im.Total, ToRead: im.BytesToRead(), At: im.TakenAt,
		Asked: supervisor.AskedOf(im.Meta),
	}
}

func (storeImages) Collect(dir, storeID string, id headrace.TaskID) error {
	s, err := checkpoint.Open(dir, checkpoint.Options{ID: storeID})
	if err != nil {
		return err
	}
	return s.Collect(string(id))
}

func (storeImages) Remove(dir, storeID string, id headrace.TaskID) error {
	s, err := checkpoint.Open(dir, checkpoint.Options{ID: storeID})
	if err != nil {
		return err
	}
	return s.Remove(string(id))
}

func (storeImages) Measure(ctx context.Context, store string) (write, read float64, err error) {
	return checkpoint.Measure(ctx, store, measureSize)
}
