package yarn

import (
	"context"
	"fmt"
	"maps"
	"strconv"
)

// LineCounts is a driver of Spark on YARN with one application at a time, which counts the
// lines of files as often as it is asked to. Its application master is in the driver
// (spark.yarn.unmanagedAM.enabled), so that it has no container.
type LineCounts struct {
	*conversation
	c      *clients
	orders int
}

// lineOrder is what the process is told.
type lineOrder struct {
	Name       string            `json:"name"`
	What       string            `json:"what"`
	Properties map[string]string `json:"properties"`
	Executors  int               `json:"executors"`
	Inputs     []string          `json:"inputs"`
	Hold       string            `json:"hold"`
}

const lineCounts = "headrace.sparkyarn.LineCounts"

// LineCounts starts a driver; it ends with the cluster. classPath is beside Spark's. ctx is
// only for the start.
func (c *clients) LineCounts(ctx context.Context, name string, classPath ...string) (*LineCounts, error) {
	t, err := c.driver(ctx, name, lineCounts, classPath)
	return &LineCounts{conversation: t, c: c}, err
}

// Open starts an application and returns when so many executors are there. The properties
// are beside those that it takes to run here.
func (l *LineCounts) Open(ctx context.Context, name string, executors int, properties map[string]string) (Event, error) {
	given := l.c.clientProperties(name)
	given["spark.yarn.unmanagedAM.enabled"] = "true"
	given["spark.executor.instances"] = strconv.Itoa(executors)
	maps.Copy(given, properties)
	return l.order(ctx, "opened", lineOrder{What: "open", Properties: given, Executors: executors})
}

// Count counts the lines of files, and returns when it is done.
func (l *LineCounts) Count(ctx context.Context, inputs []string) (Event, error) {
	return l.order(ctx, "finished", lineOrder{What: "count", Inputs: inputs})
}

// Sum begins to count the lines of files and to add up their hash codes. Each task makes a file when it is
// in the middle, hold with a dot and its number, and goes on when hold is not there. Await of "finished" of
// what is returned has the answer.
func (l *LineCounts) Sum(inputs []string, hold string) (order string, err error) {
	return l.give(lineOrder{What: "sum", Inputs: inputs, Hold: hold})
}

// Close ends the application.
func (l *LineCounts) Close(ctx context.Context) error {
	_, err := l.order(ctx, "closed", lineOrder{What: "close"})
	return err
}

func (l *LineCounts) order(ctx context.Context, want string, o lineOrder) (Event, error) {
	name, err := l.give(o)
	if err != nil {
		return Event{}, err
	}
	return l.Await(ctx, name, want)
}

func (l *LineCounts) give(o lineOrder) (name string, err error) {
	l.orders++
	o.Name = fmt.Sprint(o.What, l.orders)
	return o.Name, l.say(o.Name, o)
}
