package yarn

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Queries is one driver of Spark on YARN, in which each query is an application of its own,
// one after the other. It may be used by several goroutines.
type Queries struct {
	*conversation
	c *clients
}

// A QueryOrder is a query on the tables of TPC-H, or makes them if there is none.
type QueryOrder struct {
	// Name that no other has had.
	Name string `json:"name"`
	// Dir has the tables.
	Dir   string `json:"dir"`
	Query string `json:"query"`
	// Properties of Spark, beside those that it takes to run here.
	Properties map[string]string `json:"properties"`
	// Scale of tables that are made (1: a gigabyte); Most is how many bytes a file of them
	// has, about.
	Scale float64 `json:"scale"`
	Most  int64   `json:"most"`
}

// sparkOpens is what Spark reaches into, on Java 17.
const sparkOpens = "--add-opens=java.base/java.lang=ALL-UNNAMED --add-opens=java.base/java.lang.invoke=ALL-UNNAMED --add-opens=java.base/java.nio=ALL-UNNAMED " +
	"--add-opens=java.base/java.util=ALL-UNNAMED --add-opens=java.base/java.util.concurrent=ALL-UNNAMED --add-opens=java.base/sun.nio.ch=ALL-UNNAMED " +
	"--add-opens=java.base/sun.util.calendar=ALL-UNNAMED"

// FindSpark looks for the jars of a Spark that runs on YARN. The error says what to do.
func (j *Jars) FindSpark() error {
	if _, err := os.Stat(j.SparkApp); err != nil {
		return fmt.Errorf("there is no Spark (%w): run mvn -f java/sparkyarn/pom.xml package", err)
	}
	return nil
}

// Queries starts a driver; it ends with the cluster. classPath is beside Spark's. ctx is
// only for the start.
func (c *clients) Queries(ctx context.Context, classPath ...string) (*Queries, error) {
	t, err := c.driver(ctx, "queries", "headrace.sparkyarn.Queries", classPath)
	return &Queries{t, c}, err
}

// driver starts a process in which applications of Spark have their drivers.
func (c *clients) driver(ctx context.Context, name, class string, classPath []string) (*conversation, error) {
	if err := c.o.Jars.FindSpark(); err != nil {
		return nil, err
	}
	shared := c.o.Jars.sparkClasses()
	path := slices.Concat(shared.path, []string{c.o.Jars.SparkApp}, classPath, []string{c.confDir()})
	cmd := c.java(640, class, path, shared.flags())
	cmd.Env = append(cmd.Env, "HADOOP_CONF_DIR="+c.confDir(), "JDK_JAVA_OPTIONS="+sparkOpens)
	return c.converse(ctx, name, cmd)
}

// Make makes tables and returns their files with their sizes.
func (q *Queries) Make(ctx context.Context, o QueryOrder) (files map[string]int64, err error) {
	if err := q.say(o.Name, o); err != nil {
		return nil, err
	}
	e, err := q.Await(ctx, o.Name, "made")
	if err != nil {
		return nil, err
	}
	return files, json.Unmarshal([]byte(e.Answer), &files)
}

// Run runs a query and returns when it has ended.
func (q *Queries) Run(ctx context.Context, o QueryOrder) (Event, error) {
	given := q.c.clientProperties(o.Name)
	given["spark.yarn.am.memory"], given["spark.yarn.am.memoryOverhead"] = "256m", "160m"
	given["spark.yarn.am.extraJavaOptions"] = given["spark.executor.extraJavaOptions"]
	maps.Copy(given, o.Properties)
	o.Properties = given
	if err := q.say(o.Name, o); err != nil {
		return Event{}, err
	}
	e, err := q.Await(ctx, o.Name, "finished")
	if err == nil && !e.Good {
		err = fmt.Errorf("query %s has no rows (%s)", o.Name, e.Application)
	}
	return e, err
}

// clientProperties are those of one that has its driver in a process of ours.
func (c *clients) clientProperties(name string) map[string]string {
	given := c.sparkProperties(name)
	given["spark.submit.deployMode"] = "client"
	given["spark.driver.host"], given["spark.driver.bindAddress"] = c.rmHost(), c.rmHost()
	return given
}

// SparkClassPath returns what stands before all else in the class path of Spark's containers: first the jars whose classes are
// archived, then others.
func (c *clients) SparkClassPath(others ...string) string {
	return strings.Join(append(c.o.Jars.sparkClasses().path, others...), ":")
}

// sparkProperties are those of any application of Spark here: small JVMs, and jars that are
// where they are.
func (c *clients) sparkProperties(name string) map[string]string {
	shared := c.o.Jars.sparkClasses()
	jvm := strings.Join(slices.Concat(smallJVM, shared.flags()), " ")
	return map[string]string{
		"spark.master":                    "yarn",
		"spark.app.name":                  name,
		"spark.yarn.queue":                "low",
		"spark.yarn.jars":                 "local:" + filepath.Join(c.o.Jars.Spark, "*"),
		"spark.yarn.stagingDir":           "file://" + filepath.Join(c.Dir, "staging"),
		"spark.yarn.report.interval":      "500ms",
		"spark.ui.enabled":                "false",
		"spark.executor.memory":           "480m",
		"spark.executor.memoryOverhead":   "160m",
		"spark.executor.extraJavaOptions": jvm,
		"spark.driver.extraJavaOptions":   jvm,
		"spark.executor.extraClassPath":   c.SparkClassPath(),
		"spark.driver.extraClassPath":     c.SparkClassPath(),
	}
}
