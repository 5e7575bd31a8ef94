package yarn

import (
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"headrace/internal/testkit"
	"headrace/wire"
)

// TestLocalitySurvives: jobs of Spark and of MapReduce that go by what is in memory have the right answer, and in time,
// whatever dies or stands still while their tasks are in the middle of their input. Afterwards it is known again what is
// in memory, and what nobody needs is neither locked nor registered.
func TestLocalitySurvives(t *testing.T) {
	parallel(t, 275)
	needMachines(t)
	c := startTest(t, Options{Mode: Headrace, Policy: "wait", Machines: true, Nodes: 3, Memory: 3072, NodeFlags: []string{"--warm-budget", "64MB"},
		HDFS: &HDFSOptions{BlockSize: dataBlock, Replication: 2,
			// Else a DataNode that is killed has sent all of a block, which is small, before anybody has read it.
			Properties: map[string]string{"dfs.datanode.transfer.socket.send.buffer.size": "65536"}}})
	s := &stricken{c: c, mapReduceJar: frameworkJar(t, c, "mapreduce")}
	s.write(t)
	s.spark, _ = s.open(t, "first", 3, c.machines[0].socket())
	for _, step := range []struct {
		name string
		do   func(*testing.T)
	}{
		{"nothing", s.nothingHappens}, {"manager killed", s.managerIsKilled}, {"manager stands still", s.managerStandsStill},
		{"DataNode killed", s.dataNodeIsKilled}, {"driver killed", s.driverIsKilled}, {"replicated elsewhere", s.isReplicatedElsewhere},
		{"nodes killed", s.nodesAreKilled}, {"absent", s.isAbsent}, {"forgotten", s.isForgotten},
	} {
		began := time.Now()
		if !t.Run(step.name, step.do) {
			return
		}
		t.Logf("%s: %v", step.name, time.Since(began).Round(100*time.Millisecond))
	}
	idle(t, c)
}

// stricken is a cluster to which things happen.
type stricken struct {
	c            *Cluster
	spark        *LineCounts // with an application that lives through everything
	mapReduceJar string
	sum, md5     string // the right answers of Spark and of MapReduce
	jobs         int
}

// Files: Spark reads the long one, in more tasks than it has executors, MapReduce the short one, in more maps than may
// run at once.
const (
	longFile, longBlocks   = "/long", 8
	shortFile, shortBlocks = "/short", 3
)

func (s *stricken) write(t *testing.T) {
	t.Helper()
	for path, blocks := range map[string]int{longFile: longBlocks, shortFile: shortBlocks} {
		var text bytes.Buffer
		lines, sum := 0, int64(0)
		copied := md5.New() // of the lines in order, with what ends a key
		for ; text.Len() < blocks*dataBlock; lines++ {
			line := fmt.Sprintf("line %010d", lines)
			fmt.Fprintln(&text, line)
			fmt.Fprintf(copied, "%s\t\n", line)
			hash := int32(0)
			for _, b := range []byte(line) {
				hash = 31*hash + int32(b)
			}
			sum += int64(hash)
		}
		put(t, s.c, path, text.Bytes())
		must(s.c.HDFS.Replicas(t.Context(), path, 2))(t)
		if path == longFile {
			s.sum = fmt.Sprintf("%d lines, %d", lines, sum)
		} else {
			s.md5 = fmt.Sprintf("%x", copied.Sum(nil))
		}
	}
}

// open starts a driver of Spark with an application that goes by what is in memory and has its input kept there.
func (s *stricken) open(t *testing.T, name string, executors int, socket string) (driver *LineCounts, id string) {
	t.Helper()
	if err := s.c.o.Jars.FindSpark(); err != nil {
		t.Skip(err)
	}
	jar := frameworkJar(t, s.c, "spark")
	driver = must(s.c.LineCounts(within(t, patience), name, jar))(t)
	return driver, must(driver.Open(within(t, patience), name, executors, map[string]string{
		"spark.plugins":                     "headrace.spark.MemoryLocalityPlugin,headrace.spark.WarmPlugin",
		"spark.executor.extraClassPath":     s.c.SparkClassPath(jar, s.c.o.Jars.SparkApp),
		"spark.executor.cores":              "1",
		"spark.hadoop.headrace.node.socket": socket,
	}))(t).Application
}

// held is a job of which tasks stand still in the middle of their input until the file hold is gone.
type held struct {
	hold  string
	took  time.Duration // until so many were in the middle
	began time.Time
	over  func() bool            // it has ended
	wait  func(*testing.T) Event // until it has ended, well
	log   func(*testing.T) string
}

// inTheMiddle returns when so many tasks of a job are.
func (h *held) inTheMiddle(t *testing.T, tasks int) {
	t.Helper()
	eventually(t, fmt.Sprintf("wait for %d tasks to be in the middle", tasks), func() (bool, error) {
		if h.over() {
			return false, &fatal{errors.New("the job is over")}
		}
		there, err := filepath.Glob(h.hold + ".*")
		return len(there) >= tasks, errors.Join(err, fmt.Errorf("there are %q", there))
	})
	h.took = time.Since(h.began)
}

// eventually returns when something is so, however busy the machine is.
func eventually(t *testing.T, what string, is func() (bool, error)) {
	t.Helper()
	must(0, await(within(t, patience), what, patience, func(context.Context) (bool, error) { return is() }))(t)
}

func (s *stricken) newHeld(t *testing.T) *held {
	t.Helper()
	s.jobs++
	hold := filepath.Join(s.c.Dir, fmt.Sprint("hold", s.jobs))
	must(0, os.WriteFile(hold, nil, 0o644))(t)
	return &held{hold: hold, began: time.Now()}
}

func (s *stricken) startSpark(t *testing.T, driver *LineCounts) *held {
	t.Helper()
	h := s.newHeld(t)
	before := logSize(driver.run.client.log)
	h.log = func(t *testing.T) string { return string(must(os.ReadFile(driver.run.client.log))(t)[before:]) }
	order := must(driver.Sum([]string{longFile}, h.hold))(t)
	h.over = func() bool {
		events, err := driver.Events(order)
		return err != nil || len(events) > 0
	}
	h.wait = func(t *testing.T) Event {
		t.Helper()
		e := must(driver.Await(within(t, patience), order, "finished"))(t)
		if e.Answer != s.sum {
			t.Errorf("Spark's answer is %q, want %q", e.Answer, s.sum)
		}
		return e
	}
	return h
}

// startMapReduce starts a job that copies lines: each map a part of them.
func (s *stricken) startMapReduce(t *testing.T, socket string) *held {
	t.Helper()
	h := s.newHeld(t)
	name := filepath.Base(h.hold)
	program := filepath.Join(s.c.Dir, "map-"+name)
	must(0, os.WriteFile(program, fmt.Appendf(nil, "#!/bin/bash\nhead -c 65536\n: > %[1]s.$mapreduce_task_partition\n"+
		"while [ -e %[1]s ]; do echo reporter:status:held >&2; sleep 0.2; done\ncat\n", h.hold), 0o755))(t)
	run := must(s.c.MapReduce(MapReduceJob{Name: name, Queue: "low", Class: streaming, Properties: map[string]string{
		"mapreduce.job.maps":                      "1",
		reduces:                                   "0",
		clientLooks:                               seldomLooks,
		"mapreduce.job.running.map.limit":         "2",
		"mapreduce.map.speculative":               "false",
		"yarn.app.mapreduce.am.preemption.policy": "headrace.mapreduce.MemoryLocalityPolicy",
		"mapreduce.application.classpath":         filepath.Join(s.c.o.Jars.Lib, "*") + "," + s.mapReduceJar,
		"headrace.node.socket":                    socket,
	}, Args: []string{"-input", shortFile, "-output", "/" + name, "-mapper", program}}))(t)
	h.log = func(t *testing.T) string {
		for file, text := range must(s.c.ContainerLogs(must(run.ID(within(t, patience)))(t)))(t) {
			if strings.HasSuffix(file, "_000001/syslog") {
				return text
			}
		}
		return ""
	}
	h.over = run.Ended
	h.wait = func(t *testing.T) Event {
		t.Helper()
		must(0, run.Succeed(within(t, patience)))(t)
		client, parts := must(s.c.HDFS.Client())(t), []string{}
		for i := range shortBlocks {
			parts = append(parts, testkit.Content(client.Open(t.Context(), fmt.Sprintf("/%s/part-%05d", name, i)))(t))
		}
		slices.Sort(parts) // the largest block is the first map's
		if answer := fmt.Sprintf("%x", md5.Sum([]byte(strings.Join(parts, "")))); answer != s.md5 {
			t.Errorf("MapReduce's answer is %q, want %q", answer, s.md5)
		}
		counted := map[string]int64{}
		for _, m := range regexp.MustCompile(`(?m)^\s+([A-Z_]*(?:MEMORY|DOUBTS)[A-Z_]*)=(\d+)$`).FindAllStringSubmatch(string(must(os.ReadFile(run.client.log))(t)), -1) {
			counted[m[1]] = must(strconv.ParseInt(m[2], 10, 64))(t)
		}
		return Event{Metrics: counted}
	}
	return h
}

// pair starts a job of each kind, and returns when both are in the middle.
func (s *stricken) pair(t *testing.T, driver *LineCounts, executors int, socket string) (spark, mapReduce *held) {
	t.Helper()
	mapReduce, spark = s.startMapReduce(t, socket), s.startSpark(t, driver)
	spark.inTheMiddle(t, executors)
	mapReduce.inTheMiddle(t, 2)
	return spark, mapReduce
}

// usualPair is one that asks the nodes.
func (s *stricken) usualPair(t *testing.T) (spark, mapReduce *held) {
	t.Helper()
	return s.pair(t, s.spark, 3, wire.SocketPath(s.c.machines[0].at(stateName)))
}

// released lets a pair go on, and returns what they have counted when both have ended.
func released(t *testing.T, spark, mapReduce *held) (ofSpark, ofMapReduce map[string]int64) {
	t.Helper()
	began := time.Now()
	must(0, errors.Join(os.Remove(spark.hold), os.Remove(mapReduce.hold)))(t)
	ofSpark, ofMapReduce = spark.wait(t).Metrics, mapReduce.wait(t).Metrics
	took := time.Since(began)
	t.Logf("%v until they were in the middle, then %v; %v; %v", mapReduce.took.Round(100*time.Millisecond), took.Round(100*time.Millisecond), ofSpark, ofMapReduce)
	if ofSpark["locality.doubts"]+ofMapReduce["MEMORY_DOUBTS"] > 0 {
		t.Error("something was not found out")
	}
	return ofSpark, ofMapReduce
}

// What Residency writes when it hears nothing, and when it does again.
const blind, sees = "It is not known what is in memory where;", "It is known again what is in memory where"

// awaitSaid returns when logs have some words, since the job began, which they are to have once.
func awaitSaid(t *testing.T, words string, of ...*held) {
	t.Helper()
	for _, h := range of {
		eventually(t, fmt.Sprintf("wait for %q to be said", words), func() (bool, error) { return strings.Contains(h.log(t), words), nil })
		if n := strings.Count(h.log(t), words); n != 1 {
			t.Errorf("%d times %q:\n%s", n, words, h.log(t))
		}
	}
}

// seesAgain returns when Spark's driver knows again what is in memory.
func (s *stricken) seesAgain(t *testing.T, spark *held) {
	t.Helper()
	awaitSaid(t, sees, spark)
	eventually(t, "wait for all blocks to be known in memory", func() (bool, error) {
		m := s.again(t)
		return m["locality.resident"] == longBlocks, fmt.Errorf("%v", m)
	})
	if n := s.gauge(t, "following_applications"); n == 0 {
		t.Error("the manager knows of no application")
	}
}

// gauge returns what the manager says of itself.
func (s *stricken) gauge(t *testing.T, name string) int {
	t.Helper()
	text := managerMetrics(t, s.c)
	m := regexp.MustCompile(`(?m)^headrace_manager_` + name + ` (\d+)$`).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("the manager says nothing of %s:\n%s", name, text)
	}
	return must(strconv.Atoi(m[1]))(t)
}

func (s *stricken) nothingHappens(t *testing.T) {
	spark := s.startSpark(t, s.spark)
	spark.inTheMiddle(t, 3)
	must(0, os.Remove(spark.hold))(t)
	if m := spark.wait(t).Metrics; m["locality.failed"]+m["locality.doubts"] > 0 || m["locality.resident"] != longBlocks {
		t.Errorf("%v", m)
	}
	if strings.Contains(spark.log(t), blind) {
		t.Errorf("the driver is blind:\n%s", spark.log(t))
	}
}

// goesBlind strikes a pair in the middle, which goes on in the frameworks' own order.
func (s *stricken) goesBlind(t *testing.T, strike func() error) *held {
	t.Helper()
	spark, mapReduce := s.usualPair(t)
	must(0, strike())(t)
	awaitSaid(t, blind, spark, mapReduce)
	ofSpark, ofMapReduce := released(t, spark, mapReduce)
	if ofSpark["locality.failed"] == 0 || ofSpark["locality.resident"] > 0 || ofMapReduce["NOT_IN_MEMORY_MAPS"] == 0 {
		t.Errorf("%v, %v", ofSpark, ofMapReduce)
	}
	return spark
}

func (s *stricken) managerIsKilled(t *testing.T) {
	spark := s.goesBlind(t, s.c.KillManager)
	must(0, s.c.StartManager(within(t, patience)))(t)
	s.seesAgain(t, spark)
}

func (s *stricken) managerStandsStill(t *testing.T) {
	testkit.Long(t)
	manager := s.c.headraceDaemons.process.cmd.Process
	spark := s.goesBlind(t, func() error { return manager.Signal(syscall.SIGSTOP) })
	must(0, manager.Signal(syscall.SIGCONT))(t)
	s.seesAgain(t, spark)
}

const deadDataNode = 1

func (s *stricken) dataNodeIsKilled(t *testing.T) {
	spark, mapReduce := s.usualPair(t)
	must(0, s.c.HDFS.KillDataNode(deadDataNode))(t)
	if ofSpark, ofMapReduce := released(t, spark, mapReduce); ofSpark["locality.resident"] == 0 || ofMapReduce["MEMORY_LOCAL_MAPS"] == 0 {
		t.Errorf("%v, %v", ofSpark, ofMapReduce)
	}
}

// driverIsKilled has two drivers on the same data, of which one dies and the other goes on.
func (s *stricken) driverIsKilled(t *testing.T) {
	testkit.Long(t)
	second, id := s.open(t, "second", 1, s.c.machines[2].socket())
	both := []*held{s.startSpark(t, s.spark), s.startSpark(t, second)}
	both[0].inTheMiddle(t, 3)
	both[1].inTheMiddle(t, 1)
	for _, h := range both {
		must(0, os.Remove(h.hold))(t)
	}
	for _, h := range both {
		if m := h.wait(t).Metrics; m["locality.resident"] == 0 {
			t.Errorf("%v", m)
		}
	}
	both = []*held{s.startSpark(t, s.spark), s.startSpark(t, second)}
	both[0].inTheMiddle(t, 3)
	both[1].inTheMiddle(t, 1)
	must(0, second.run.Kill())(t)
	must(0, os.Remove(both[0].hold))(t)
	both[0].wait(t)
	must(0, os.Remove(both[1].hold))(t)
	// YARN would wait ten minutes for it.
	must(0, s.c.KillApp(within(t, patience), id))(t)
}

// isReplicatedElsewhere waits until the blocks of the DataNode that was killed are.
func (s *stricken) isReplicatedElsewhere(t *testing.T) {
	h := s.c.HDFS
	must(0, await(within(t, patience), "wait for new replicas", patience, func(ctx context.Context) (bool, error) {
		for _, path := range []string{longFile, shortFile} {
			all, err := h.Replicas(ctx, path, 2)
			if err != nil {
				return false, err
			}
			for _, r := range all {
				if r.Machine == deadDataNode {
					return false, fmt.Errorf("%s is on a machine without a DataNode: %+v", path, r)
				}
			}
		}
		return true, nil
	}))(t)
	s.again(t)
	must(0, h.StartDataNode(within(t, patience), deadDataNode))(t)
	s.again(t)
}

// again runs a job of Spark in which nothing happens, and returns what the application has counted.
func (s *stricken) again(t *testing.T) map[string]int64 {
	t.Helper()
	h := s.startSpark(t, s.spark)
	must(0, os.Remove(h.hold))(t)
	return h.wait(t).Metrics
}

// nodesAreKilled kills the one that the driver asks, and another.
func (s *stricken) nodesAreKilled(t *testing.T) {
	spark := s.startSpark(t, s.spark)
	spark.inTheMiddle(t, 3)
	must(0, errors.Join(s.c.KillNode(0), s.c.KillNode(1)))(t)
	awaitSaid(t, blind, spark)
	must(0, os.Remove(spark.hold))(t)
	if m := spark.wait(t).Metrics; m["locality.resident"] > 0 {
		t.Errorf("%v", m)
	}
	must(0, errors.Join(s.c.StartNode(within(t, patience), 0), s.c.StartNode(within(t, patience), 1)))(t)
	s.seesAgain(t, spark)
}

// isAbsent: without Headrace everything is as it always was, and that is said once of each thing that is left out.
func (s *stricken) isAbsent(t *testing.T) {
	testkit.Long(t) // both go without the manager above; in Java MemoryLocalityPluginTest and MapLocalityTest go without a node
	nobody := filepath.Join(s.c.Dir, "nobody")
	third, _ := s.open(t, "third", 1, nobody)
	spark, mapReduce := s.pair(t, third, 1, nobody)
	ofSpark, ofMapReduce := released(t, spark, mapReduce)
	if ofSpark["locality.lists"]+ofSpark["locality.resident"] > 0 || ofMapReduce["NOT_IN_MEMORY_MAPS"] != shortBlocks {
		t.Errorf("%v, %v", ofSpark, ofMapReduce)
	}
	must(0, third.Close(within(t, patience)))(t)
	for h, want := range map[*held][]string{spark: {blind, "is not read into memory before it starts"}, mapReduce: {blind, "taken for dead"}} {
		warned := regexp.MustCompile(`(?m)^.* WARN .*(?i:headrace).*$`).FindAllString(h.log(t), -1)
		for _, words := range want {
			if n := strings.Count(strings.Join(warned, "\n"), words); n != 1 {
				t.Errorf("%d times %q, want once", n, words)
			}
		}
		if len(warned) != len(want) {
			t.Errorf("%d warnings, want %d: %q", len(warned), len(want), warned)
		}
	}
}

// isForgotten: of the applications that were there the manager knows the one that lives, a minute after others, such
// as the one that was killed, have last asked. When that has ended, too, nothing of it is kept.
func (s *stricken) isForgotten(t *testing.T) {
	began := time.Now()
	eventually(t, "wait for one application to be known", func() (bool, error) {
		n := s.gauge(t, "following_applications")
		return n == 1, fmt.Errorf("there are %d", n)
	})
	one := time.Since(began)
	if blocks := s.gauge(t, "followed_blocks"); blocks != longBlocks {
		t.Errorf("%d blocks are followed, want %d", blocks, longBlocks)
	}
	must(0, s.spark.Close(within(t, patience)))(t)
	eventually(t, "wait for no input to be kept for anybody", func() (bool, error) {
		left := must(s.c.Inputs().Inputs(within(t, patience), &wire.InputsRequest{User: userName()}))(t).Inputs
		return len(left) == 0, fmt.Errorf("%v", left)
	})
	none := time.Since(began)
	for _, m := range s.c.machines { // files stay open for the minute in which the application is known
		eventually(t, "wait for nothing to be locked on "+m.host, func() (bool, error) {
			n := locked(t, m.agent)
			return n == 0, fmt.Errorf("%d kB are", n)
		})
	}
	t.Logf("one application was left after %v, no input after %v, and nothing was locked after %v", one, none, time.Since(began))
}
