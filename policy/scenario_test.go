package policy

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"headrace"
	"headrace/policy/internal/words"
)

var rewrite = flag.Bool("rewrite", false, "write what is decided now into the scenario files")

// A scenario file holds views and what is decided about them. Blank lines and
// lines that begin with # are skipped.
//
//	config policy=suspend minrun=5s          adds to the configuration
//	node n1 cpus=1 memory=4G swapfree=2G     starts a new view, or adds a node to it
//	store n1 fast write=1G read=1G           adds a store to a node
//	task a n1 low running cpus=1 resident=1G adds a task; the node of a pending one is -
//	set a running=1m leaving=true            changes a task
//	                                         task gang=1: runs only together with others
//	                                         node gpu=4, task gpu=2: of a counted resource
//	                                         node disk=100M, task input=0/1G at=n1:1G: where
//	                                         what of an input is in memory; task fromdisk=1G
//	                                         cold=1G: of what it has read
//	decide                                   decides, and lists orders and notes
//	choose u n1                              lists what is considered for task u
//	giveway a high                           lists how task a leaves for something urgent
//
// The lines after decide, choose or giveway and ---- up to a blank line are what is
// expected. Sizes take K, M, G (powers of 1024), times as in Go.
type scenario struct {
	config Config
	view   headrace.View
	fresh  bool // the next node starts a new view
}

func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenario files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { runFile(t, file) })
	}
}

func runFile(t *testing.T, file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var s scenario
	var out strings.Builder
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		fmt.Fprintln(&out, line)
		got, err := s.do(line)
		if err != nil {
			t.Fatalf("%s:%d: %v", file, i+1, err)
		}
		if got == "" {
			continue
		}
		var want strings.Builder
		if i+1 < len(lines) && lines[i+1] == "----" {
			for i += 2; i < len(lines) && lines[i] != ""; i++ {
				fmt.Fprintln(&want, lines[i])
			}
			i--
		}
		fmt.Fprintf(&out, "----\n%s", got)
		if !*rewrite && got != want.String() {
			t.Errorf("%s:%d: %s\ngot:\n%swant:\n%s", file, i+1, line, got, want.String())
		}
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// do carries out one line and returns what a deciding line has decided.
func (s *scenario) do(line string) (string, error) {
	f := strings.Fields(line)
	if len(f) == 0 || strings.HasPrefix(f[0], "#") {
		return "", nil
	}
	switch {
	case f[0] == "config":
		return "", s.configure(f[1:])
	case f[0] == "node" && len(f) >= 2:
		return "", s.node(f[1], f[2:])
	case f[0] == "store" && len(f) >= 3:
		return "", s.store(f[1], f[2], f[3:])
	case f[0] == "task" && len(f) >= 5:
		return "", s.task(f[1:5], f[5:])
	case f[0] == "set" && len(f) >= 2:
		for i := range s.view.Tasks {
			if string(s.view.Tasks[i].ID) == f[1] {
				return "", setTask(&s.view.Tasks[i], f[2:])
			}
		}
		return "", fmt.Errorf("no task %s", f[1])
	case f[0] == "decide" && len(f) == 1:
		s.fresh = true
		return s.decide(), nil
	case f[0] == "choose" && len(f) == 3:
		s.fresh = true
		return s.choose(f[1], f[2])
	case f[0] == "giveway" && len(f) == 3:
		s.fresh = true
		return s.giveWay(f[1], f[2])
	}
	return "", fmt.Errorf("cannot read %q", line)
}

// each calls set for every key=value.
func each(pairs []string, set func(key, value string) error) error {
	for _, p := range pairs {
		key, value, ok := strings.Cut(p, "=")
		if !ok {
			return fmt.Errorf("%q: want key=value", p)
		}
		if err := set(key, value); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return nil
}

var errKey = errors.New("unknown key")

func (s *scenario) configure(pairs []string) error {
	err := each(pairs, func(key, value string) (err error) {
		c := &s.config
		switch key {
		case "policy":
			*c = Config{}
			c.Policy, err = ParsePolicy(value)
		case "order":
			c.VictimOrder, err = ParseVictimOrder(value)
		case "minrun":
			c.MinRun, err = time.ParseDuration(value)
		case "ageing":
			c.Ageing, err = time.ParseDuration(value)
		case "reserve":
			c.reserve, err = strconv.ParseFloat(value, 64)
		case "overlap":
			c.overlap, err = strconv.ParseFloat(value, 64)
		case "doubling":
			c.Doubling, err = strconv.ParseFloat(value, 64)
		case "residency":
			var follow bool
			follow, err = strconv.ParseBool(value)
			c.NoResidencyOrder = !follow
		default:
			err = errKey
		}
		return err
	})
	if err != nil {
		return err
	}
	if c := &s.config; !(c.reserve < 1 && c.overlap <= 1) {
		return fmt.Errorf("%+v makes no sense", c)
	}
	return s.config.Validate()
}

func (s *scenario) node(id string, pairs []string) error {
	if s.fresh {
		s.view, s.fresh = headrace.View{}, false
	}
	s.view.Needs = [][]float64{{1}, {2}, {3}, {4}}
	for i := range s.view.Nodes {
		if string(s.view.Nodes[i].ID) == id {
			return fmt.Errorf("there is a node %s already", id)
		}
	}
	n := headrace.NodeView{ID: headrace.NodeID(id), CPUs: 1}
	err := each(pairs, func(key, value string) (err error) {
		switch key {
		case "cpus":
			n.CPUs, err = strconv.ParseFloat(value, 64)
		case "memory":
			n.Memory, err = parseSize(value)
		case "swapfree":
			n.SwapFree, err = parseSize(value)
		case "swapout":
			n.SwapOut, err = parseBandwidth(value)
		case "swapin":
			n.SwapIn, err = parseBandwidth(value)
		case "net":
			n.Net, err = parseBandwidth(value)
		case "disk":
			n.Disk, err = parseBandwidth(value)
		case "gpu":
			n.Counted = make([]float64, 1)
			n.Counted[0], err = strconv.ParseFloat(value, 64)
		default:
			err = errKey
		}
		return err
	})
	s.view.Nodes = append(s.view.Nodes, n)
	return err
}

func (s *scenario) store(node, name string, pairs []string) error {
	st := headrace.StoreView{Name: name}
	err := each(pairs, func(key, value string) (err error) {
		switch key {
		case "write":
			st.Write, err = parseBandwidth(value)
		case "read":
			st.Read, err = parseBandwidth(value)
		case "free":
			st.Free, err = parseSize(value)
		case "dump":
			st.DumpOverhead, err = time.ParseDuration(value)
		case "restore":
			st.RestoreOverhead, err = time.ParseDuration(value)
		case "queue":
			st.Queue, err = time.ParseDuration(value)
		default:
			err = errKey
		}
		return err
	})
	for i := range s.view.Nodes {
		if n := &s.view.Nodes[i]; string(n.ID) == node {
			n.Stores = append(n.Stores, st)
			return err
		}
	}
	return fmt.Errorf("no node %s", node)
}

func (s *scenario) task(f, pairs []string) (err error) {
	for i := range s.view.Tasks {
		if string(s.view.Tasks[i].ID) == f[0] {
			return fmt.Errorf("there is a task %s already", f[0])
		}
	}
	t := headrace.TaskView{ID: headrace.TaskID(f[0]), CPUs: 1, Progress: headrace.Progress{Share: -1}}
	if f[1] != "-" {
		t.Node = headrace.NodeID(f[1])
	}
	if t.Priority, err = headrace.ParsePriority(f[2]); err != nil {
		return err
	}
	if t.State, err = headrace.ParseTaskState(f[3]); err != nil {
		return err
	}
	if err := setTask(&t, pairs); err != nil {
		return err
	}
	s.view.Tasks = append(s.view.Tasks, t)
	return nil
}

func setTask(t *headrace.TaskView, pairs []string) error {
	return each(pairs, func(key, value string) (err error) {
		switch key {
		case "cpus":
			t.CPUs, err = strconv.ParseFloat(value, 64)
		case "priority":
			t.Priority, err = headrace.ParsePriority(value)
		case "state":
			t.State, err = headrace.ParseTaskState(value)
		case "node":
			t.Node = headrace.NodeID(value)
		case "room":
			t.Room = headrace.NodeID(value)
		case "request":
			t.MemoryRequest, err = parseSize(value)
		case "resident":
			t.Resident, err = parseSize(value)
		case "swapped":
			t.Swapped, err = parseSize(value)
		case "dirty":
			t.Dirty, err = parseSize(value)
		case "pagingout":
			t.PagingOut, err = parseSize(value)
		case "preemptions":
			t.Preemptions, err = strconv.Atoi(value)
		case "share":
			t.Progress.Share, err = strconv.ParseFloat(value, 64)
		case "nosuspend":
			t.NoSuspend = value
		case "nokill":
			t.NoKill, err = headrace.ParsePriority(value)
		case "novictims":
			t.NoVictims, err = strconv.ParseBool(value)
		case "beyond":
			t.Beyond, err = strconv.ParseBool(value)
		case "nocheckpoint":
			t.NoCheckpoint = value
		case "checkpoint":
			err = setCheckpoint(t, value)
		case "by":
			err = setLeaving(t, value)
		case "gpu":
			var n int
			n, err = strconv.Atoi(value)
			if t.Need = int32(n); err == nil && (n < 0 || n > 4) {
				err = errors.New("want 0 to 4")
			}
		case "gang":
			var n int
			n, err = strconv.Atoi(value)
			t.Gang, t.NoCheckpoint = int32(n), "it is one of a gang"
		case "job":
			t.Job = headrace.JobID(value)
		case "input":
			err = setInput(t, value)
		case "at":
			err = setAt(t, value)
		case "fromdisk":
			t.Input.FromDisk, err = parseSize(value)
		case "cold":
			t.Input.Cold, err = parseSize(value)
		default:
			return setTimes(t, key, value)
		}
		return err
	})
}

func setTimes(t *headrace.TaskView, key, value string) (err error) {
	switch key {
	case "waiting":
		t.Waiting, err = time.ParseDuration(value)
	case "waited":
		t.Waited, err = time.ParseDuration(value)
	case "running":
		t.Running, err = time.ParseDuration(value)
	case "wall":
		t.Progress.Wall, err = time.ParseDuration(value)
	case "total":
		t.Progress.TotalWall, err = time.ParseDuration(value)
	case "promised":
		t.Progress.Promised, err = time.ParseDuration(value)
	case "lost":
		t.Progress.Lost, err = time.ParseDuration(value)
	case "ran": // running, wall and total
		t.Running, err = time.ParseDuration(value)
		t.Progress.Wall, t.Progress.TotalWall = t.Running, t.Running
	case "starting":
		t.Starting, err = strconv.ParseBool(value)
	case "leaving":
		t.Leaving, err = strconv.ParseBool(value)
	case "held":
		t.Held, err = strconv.ParseBool(value)
	case "barred":
		t.Barred, err = strconv.ParseBool(value)
	default:
		err = errKey
	}
	return err
}

func setInput(t *headrace.TaskView, value string) (err error) {
	resident, bytes, ok := strings.Cut(value, "/")
	if !ok {
		return errors.New("want resident/size")
	}
	if t.Input.Resident, err = parseSize(resident); err == nil {
		t.Input.Bytes, err = parseSize(bytes)
	}
	return err
}

// setAt adds what is in memory on a node.
func setAt(t *headrace.TaskView, value string) (err error) {
	node, resident, ok := strings.Cut(value, ":")
	if !ok {
		return errors.New("want node:resident")
	}
	at := headrace.InputAt{Node: headrace.NodeID(node)}
	at.Resident, err = parseSize(resident)
	t.Input.At = append(t.Input.At, at)
	return err
}

func setCheckpoint(t *headrace.TaskView, value string) error {
	store, size, ok := strings.Cut(value, ":")
	if !ok {
		return errors.New("want store:size")
	}
	n, err := parseSize(size)
	t.Checkpoint = &headrace.CheckpointView{Store: store, Bytes: n}
	return err
}

func setLeaving(t *headrace.TaskView, value string) error {
	t.Leaving = true
	for m := headrace.Wait; m <= headrace.Kill; m++ {
		if m.String() == value {
			t.LeavingBy = m
			return nil
		}
	}
	return errors.New("unknown mechanism")
}

var sizeUnits = map[byte]int64{'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30, 'T': 1 << 40}

func parseSize(s string) (int64, error) {
	unit := int64(1)
	if s != "" && sizeUnits[s[len(s)-1]] > 0 {
		unit, s = sizeUnits[s[len(s)-1]], s[:len(s)-1]
	}
	v, err := strconv.ParseFloat(s, 64)
	if err == nil && !(v >= 0 && v*float64(unit) < 1<<60) {
		err = errors.New("out of range")
	}
	return int64(v * float64(unit)), err
}

func parseBandwidth(s string) (float64, error) {
	n, err := parseSize(s)
	return float64(n), err
}

func (s *scenario) decide() string {
	orders, notes := Explain(s.view, s.config)
	var b strings.Builder
	for _, o := range orders {
		fmt.Fprintln(&b, show(o))
	}
	for _, n := range notes {
		fmt.Fprintf(&b, "(%s: %s)\n", n.Task, n.Reason)
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}

func show(o headrace.Order) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s on %s", o.Verb, o.Task, o.Node)
	if o.Verb == headrace.OrderPreempt {
		fmt.Fprintf(&b, " by %s", o.Mechanism)
	}
	if o.Store != "" {
		fmt.Fprintf(&b, " to %s", o.Store)
	}
	if o.PageOut > 0 {
		fmt.Fprintf(&b, " paging out %s", showSize(o.PageOut))
	}
	if o.For != "" {
		fmt.Fprintf(&b, " for %s", o.For)
	}
	if o.To != "" {
		fmt.Fprintf(&b, " towards %s", o.To)
	}
	fmt.Fprintf(&b, " (delay %s, waste %s): %s", words.Short(o.Delay.Seconds()), words.Short(o.Waste.Seconds()), o.Reason)
	return b.String()
}

func showSize(n int64) string {
	for _, u := range []byte("GMK") {
		if unit := sizeUnits[u]; n >= unit && n%(unit/1024) == 0 {
			return strconv.FormatFloat(float64(n)/float64(unit), 'f', -1, 64) + string(u)
		}
	}
	return strconv.FormatInt(n, 10)
}

func (s *scenario) choose(id, node string) (string, error) {
	for _, u := range s.view.Tasks {
		for _, n := range s.view.Nodes {
			if string(u.ID) != id || string(n.ID) != node {
				continue
			}
			return showChoice(Choose(u, n, s.view.Tasks, s.config)), nil
		}
	}
	return "", fmt.Errorf("no task %s or no node %s", id, node)
}

func showChoice(ch Choice) string {
	var b strings.Builder
	for _, o := range ch.Options {
		mark := " "
		if o.Chosen {
			mark = "*"
		}
		fmt.Fprintf(&b, "%s %s %s", mark, o.Mechanism, o.Task)
		if o.Store != "" {
			fmt.Fprintf(&b, " to %s", o.Store)
		}
		if o.Refused != "" {
			fmt.Fprintf(&b, ": refused: %s\n", o.Refused)
			continue
		}
		fmt.Fprintf(&b, ": delay %s, waste %s, total %.3g", words.Short(o.Delay.Seconds()), words.Short(o.Waste.Seconds()), o.Total)
		if o.PageOut > 0 {
			fmt.Fprintf(&b, ", page out %s", showSize(o.PageOut))
		}
		b.WriteByte('\n')
	}
	for _, o := range ch.Orders {
		fmt.Fprintln(&b, show(o))
	}
	switch {
	case ch.Fits:
		fmt.Fprintln(&b, "fits")
	case ch.Wait:
		fmt.Fprintln(&b, "waits")
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}

// addScenarios seeds a fuzz test with the views of the scenario files.
func addScenarios(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		f.Fatalf("no scenario files: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, part := range strings.Split(string(data), "\n\n") {
			f.Add(part)
		}
	}
}

// sane reports whether v could come from a daemon: nothing is oversubscribed, and
// what is measured agrees with itself.
func sane(v *headrace.View) bool {
	for _, t := range v.Tasks {
		if t.PagingOut > t.Resident || !(t.CPUs >= 0 && t.CPUs < 1e6) || t.Running < 0 || t.Progress.Wall < 0 || t.State.Final() ||
			t.Starting && t.State == headrace.Running || t.Leaving && t.State != headrace.Running || t.Starting && t.Leaving ||
			t.PagingOut > 0 && (t.State != headrace.Suspended || t.Starting) || t.Dirty > t.Resident+t.Swapped || t.Held && t.State == headrace.Running {
			return false
		}
	}
	for i := range v.Nodes {
		n := &v.Nodes[i]
		var all usage
		for _, t := range v.Tasks {
			if t.Node == n.ID {
				all.add(use(t, n))
			}
		}
		if !(all.cpus <= n.CPUs) || all.mem > n.Memory || n.SwapFree > 1<<50 {
			return false
		}
		for _, s := range n.Stores {
			if s.Queue < 0 || s.DumpOverhead < 0 || s.RestoreOverhead < 0 {
				return false
			}
		}
	}
	return true
}
