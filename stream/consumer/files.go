package consumer

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// mark is replaced by a path.
const mark = "{}"

// files runs the command once for each file.
func (r *runner) files(ctx context.Context) (outcome, error) {
	null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return outcome{}, fmt.Errorf("open %s: %w", os.DevNull, err)
	}
	defer unix.Close(null)
	var all outcome
	failed := 0
	for {
		u, err := r.client.Next(ctx)
		if err == io.EOF {
			if failed > 1 {
				all.reason += fmt.Sprintf("; %d files failed in all", failed)
			}
			return all, nil
		}
		if err != nil {
			return outcome{}, err
		}
		one, started, err := r.runOn(u.Path(), null)
		if err != nil || !started {
			return one, err
		}
		if one.code != 0 {
			r.say("%s: %s", u.Path(), one.reason)
			if failed++; failed == 1 {
				all = outcome{one.code, fmt.Sprintf("%s: %s", u.Path(), one.reason)}
			}
		}
		r.client.Result(u.ID(), one.code)
		u.Done()
		if r.wasTold() != 0 {
			return r.cutShort(all), nil
		}
	}
}

// runOn runs the command on one file. It was not started when no file would do;
// then the outcome is that of all.
func (r *runner) runOn(path string, null int) (one outcome, started bool, err error) {
	cmd, err := r.start(arguments(r.argv, path), null)
	if err != nil {
		one, err = r.couldNotStart(err)
		return one, strings.Contains(r.argv[0], mark), err
	}
	select {
	case <-cmd.exited:
		return r.reap(), true, nil
	case <-r.client.Failed():
		r.stop()
		return outcome{}, false, r.client.Err()
	}
}

// arguments puts path in place of every mark, or behind the last argument if
// there is none. There is no shell to take parts of a path for something else.
func arguments(argv []string, path string) []string {
	out := make([]string, 0, len(argv)+1)
	found := false
	for _, a := range argv {
		found = found || strings.Contains(a, mark)
		out = append(out, strings.ReplaceAll(a, mark, path))
	}
	if !found {
		out = append(out, path)
	}
	return out
}
