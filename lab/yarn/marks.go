package yarn

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"
)

// A Decision is what the manager has told the ResourceManager to do with a container.
type Decision struct {
	At        time.Time
	Container string
	// Mechanism is wait, suspend, checkpoint or kill.
	Mechanism string
}

var decisionLine = regexp.MustCompile(`^time=(\S+) .*msg=preempt container=(\S+) .*mechanism=(\w+)`)

// Decisions returns those that the manager has written down since it was first started,
// the oldest first. One that is the same as the last about its container is not
// written down.
func (h *headraceDaemons) Decisions() ([]Decision, error) {
	text, err := os.ReadFile(h.logFile("headrace-manager"))
	if err != nil {
		return nil, err
	}
	return parseDecisions(string(text))
}

func parseDecisions(log string) ([]Decision, error) {
	var out []Decision
	for line := range strings.Lines(log) {
		f := decisionLine.FindStringSubmatch(line)
		if f == nil {
			continue
		}
		at, err := time.Parse(time.RFC3339, f[1])
		if err != nil {
			return nil, fmt.Errorf("the manager's log: %w", err)
		}
		out = append(out, Decision{At: at, Container: f[2], Mechanism: f[3]})
	}
	return out, nil
}

// preemptionClass is the one that chooses containers and, when it is asked to, writes
// down when it has.
const preemptionClass = stockPreemption

// LogMarks has the ResourceManager write down when it marks containers for
// preemption, until it is started again. See Marks.
func (rm *resourceManager) LogMarks(ctx context.Context) error {
	address := "http://" + rm.ports["yarn.resourcemanager.webapp.address"] + "/logLevel?user.name=" + url.QueryEscape(userName()) +
		"&log=" + preemptionClass + "&level=DEBUG"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	resp, err := rm.http.Do(req)
	if err != nil {
		return fmt.Errorf("have the ResourceManager log preemptions: %w", err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("have the ResourceManager log preemptions: %s", resp.Status)
	}
	return nil
}

// A Mark is a moment at which the ResourceManager had chosen containers of an
// application for preemption. It says so again as long as it wants them.
type Mark struct {
	At time.Time
	// Attempt is the application's attempt.
	Attempt string
}

var markLine = regexp.MustCompile(`^(\d\d:\d\d:\d\d,\d\d\d) DEBUG .*Send to scheduler: in app=(appattempt_\S+) `)

// Marks returns those since LogMarks that are not older than from, the oldest first.
func (rm *resourceManager) Marks(from time.Time) ([]Mark, error) {
	text, err := os.ReadFile(rm.logFile("rm"))
	if err != nil {
		return nil, err
	}
	return parseMarks(string(text), from)
}

// parseMarks reads a log whose lines have a time and no day. Nothing in it is a day
// older than from, and nothing half a day newer.
func parseMarks(log string, from time.Time) ([]Mark, error) {
	var out []Mark
	for line := range strings.Lines(log) {
		f := markLine.FindStringSubmatch(line)
		if f == nil {
			continue
		}
		at, err := time.ParseInLocation("15:04:05,000", f[1], time.Local)
		if err != nil {
			return nil, fmt.Errorf("the ResourceManager's log: %w", err)
		}
		year, month, day := from.Local().Date()
		at = time.Date(year, month, day, at.Hour(), at.Minute(), at.Second(), at.Nanosecond(), time.Local)
		if from.Sub(at) > 12*time.Hour {
			at = at.AddDate(0, 0, 1)
		}
		if !at.Before(from) {
			out = append(out, Mark{At: at, Attempt: f[2]})
		}
	}
	return out, nil
}
