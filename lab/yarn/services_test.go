package yarn

import (
	"context"
	"strings"
	"testing"
	"time"

	"headrace/internal/testkit"
)

// Instances of a YARN service give way in place, by either mechanism, and one goes on
// on another machine. Its framework takes that for what it is: neither a failure nor
// the loss of its work.
func services(t *testing.T, j *jobs) {
	needCRIU(t)
	archive, c := archiveDir(t), j.c
	c.o.ManagerFlags = []string{"--min-run", "0s"}
	s := must(c.Services(within(t, patience)))(t)
	for _, way := range []struct {
		name, policy string
		flags        []string
		run          func(*testing.T)
	}{
		{"suspended", "suspend", nil, func(t *testing.T) { serviceInPlace(t, j, s, "suspended") }},
		{"checkpointed", "checkpoint", nil, func(t *testing.T) { serviceInPlace(t, j, s, "checkpointed") }},
		{"elsewhere", "checkpoint", []string{"--archive", archive}, func(t *testing.T) { serviceElsewhere(t, j, s, archive) }},
	} {
		t.Run(way.name, func(t *testing.T) {
			if way.name == "checkpointed" {
				testkit.Long(t) // one is, and goes on elsewhere
			}
			if err := c.StartDaemons(within(t, patience), way.policy, func(int) []string { return way.flags }); err != nil {
				t.Fatal(err)
			}
			way.run(t)
			if err := c.StopDaemons(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func (s *Services) start(t *testing.T, name string, steps Steps) string {
	return s.steps(t, name, 1, steps)
}

// steps starts a service whose instances do steps, and then read their file.
func (s *Services) steps(t *testing.T, name string, instances int, steps Steps) string {
	t.Helper()
	return must(s.Launch(within(t, patience), ServiceJob{Name: name, Queue: "low", Containers: instances, Memory: almostAll,
		// In braces, as the framework sends the output of the last command alone to a file of its own.
		Command: "{ HEADRACE_TASK=${COMPONENT_INSTANCE_NAME} " + steps.Command() + " && grep -q ${COMPONENT_INSTANCE_NAME} conf/task.properties; }"}))(t)
}

// succeed kills the application master when it has begun to end, which takes it half a
// minute.
func (s *Services) succeed(t *testing.T, app string) {
	err := await(within(t, patience), "wait for the end of "+app, patience, func(context.Context) (bool, error) {
		log, err := s.MasterLog(app)
		return strings.Contains(log, "final status=Succeeded"), err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.c.KillApp(t.Context(), app); err != nil {
		t.Fatal(err)
	}
}

// said fails unless the application master has logged a text so often.
func (s *Services) said(t *testing.T, app, text string, want int) {
	t.Helper()
	if n := strings.Count(must(s.MasterLog(app))(t), text); n != want {
		t.Errorf("the application master of %s has logged %q %d times, want %d", app, text, n, want)
	}
}

// Both instances give way, one on each machine, and go on there.
func serviceInPlace(t *testing.T, j *jobs, s *Services, state string) {
	const instances = 2
	steps := must(j.c.NewSteps("service-"+state, 40, 100*time.Millisecond))(t)
	hold(t, steps, 10)
	app := s.steps(t, "service-"+state, instances, steps)
	awaitSteps(t, steps, 20)
	high := j.startHeld(t, ShellJob{Name: "high-" + state, Queue: "high", Containers: 2, Memory: almostAll}, 10, 1)
	awaitState(t, j.c, state, instances, high)
	goOn(t, steps)
	high.goOn(t)
	high.finished(t)
	s.succeed(t, app)
	for instance, all := range must(steps.Attempts())(t) {
		if len(all) != 1 || len(all[0].Done) != steps.Count {
			t.Errorf("%s has run in %d containers, and done %d of %d steps in the first", instance, len(all), len(all[0].Done), steps.Count)
		}
	}
	s.said(t, app, "Transitioned from STARTED to READY", instances)
	s.said(t, app, "Transitioned from READY to STARTED", 0)
	s.said(t, app, "requested a new container", 0)
	idle(t, j.c)
}

func serviceElsewhere(t *testing.T, j *jobs, s *Services, archive string) {
	d := depart(t, j, "service-moves", s)
	goesOnElsewhere(t, d, archive)
	s.said(t, d.application, "requested a new container", 1)
}
