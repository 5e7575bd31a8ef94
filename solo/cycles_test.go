package solo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"headrace"
	"headrace/internal/testkit"
	"headrace/policy"
	"headrace/proc/checkpoint"
	"headrace/wire"
)

// cyclesEnv makes TestRealCycles larger: MEGABYTES:CYCLES.
const cyclesEnv = "HEADRACE_TEST_CYCLES"

// changing holds memory and changes a tenth of it at every step that the file tells,
// prints the step, and in the end looks at every page.
const changing = `
import mmap, struct, sys, time
pages, path = int(sys.argv[1]) * 256, sys.argv[2]
def page(i, step): return struct.pack("<QQ", i + 1, step + 1) * 256
memory = mmap.mmap(-1, pages * 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) # begins at a page, unlike a bytearray
steps, done = [0] * pages, 0
for i in range(pages): memory[i*4096:(i+1)*4096] = page(i, 0)
print("ready", flush=True)
while True:
    with open(path) as f: told = f.read()
    if told == "end": break
    if told and int(told) > done:
        done = int(told)
        for i in range(done % 10, pages, 10):
            memory[i*4096:(i+1)*4096] = page(i, done)
            steps[i] = done
        print("step", done, flush=True)
    time.sleep(0.002)
bad = sum(memory[i*4096:(i+1)*4096] != page(i, steps[i]) for i in range(pages))
print("right" if bad == 0 else "%d pages are wrong" % bad, flush=True)
`

// TestRealCycles checkpoints a task and restores it at once, again and again, while
// what each checkpoint makes useless is removed behind it: no restore fails, the store
// holds less than 2.5 times the task's memory at all times, and the memory is right in
// the end. One of the stores is in memory, where little takes time.
func TestRealCycles(t *testing.T) {
	size, cycles := 48, 16
	if v := os.Getenv(cyclesEnv); v != "" {
		if _, err := fmt.Sscanf(v, "%d:%d", &size, &cycles); err != nil {
			t.Fatalf("%s=%q: want MEGABYTES:CYCLES", cyclesEnv, v)
		}
	}
	for name, tmp := range map[string]string{"disk": "", "tmpfs": "/dev/shm"} {
		t.Run(name, func(t *testing.T) {
			if tmp != "" {
				t.Setenv("TMPDIR", tmp)
			}
			m := newMachine(t, policy.Wait)
			if !m.image {
				t.Skip("without root or CRIU there are no checkpoints")
			}
			m.launch()
			c := cycle{m: m, size: int64(size) << 20, told: filepath.Join(m.cfg.StateDir, "told")}
			c.start()
			began := time.Now()
			for i := 1; i <= cycles; i++ {
				c.once(i)
			}
			t.Logf("%d cycles of %d MB in %v; the store held at most %.2f times the task's memory",
				cycles, size, time.Since(began).Round(time.Millisecond), float64(c.most.Load())/float64(c.memory))
			c.end()
		})
	}
}

// cycle is a task that goes through checkpoints.
type cycle struct {
	m      *machine
	id     headrace.TaskID
	told   string
	size   int64
	memory int64 // of the task, in bytes
	most   atomic.Int64
}

func (c *cycle) start() {
	t := c.m.t
	c.tell("")
	c.id = c.m.run(headrace.Normal, func(q *wire.RunRequest) {
		q.Argv = []string{"/usr/bin/python3", "-c", changing, strconv.FormatInt(c.size>>20, 10), c.told}
	})
	c.await("ready")
	got := c.m.await(c.id, "measured", func(w *wire.Task) bool { return w.Usage.GetResident() > c.size })
	// What init and python map of files, and each has changed, is in a dump as well.
	const mapped = 8 << 20
	c.memory = got.Usage.Resident + mapped
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		c.sample(ctx)
	}()
	t.Cleanup(func() { stop(); <-over })
}

// sample measures the store all the time.
func (c *cycle) sample(ctx context.Context) {
	store := checkpoint.Store{Dir: filepath.Join(c.m.cfg.StateDir, "checkpoints")}
	for ctx.Err() == nil {
		used, err := store.Usage()
		if err != nil && ctx.Err() == nil {
			c.m.t.Error(err)
			return
		}
		if used > c.most.Load() {
			c.most.Store(used)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (c *cycle) once(i int) {
	t := c.m.t
	c.tell(strconv.Itoa(i))
	c.await("step " + strconv.Itoa(i))
	q := &wire.VerbRequest{Id: string(c.id)}
	if got, err := c.m.tasks.Checkpoint(c.m.ctx(), q); err != nil || got.State != "checkpointed" {
		t.Fatalf("cycle %d: checkpoint: %v, %v", i, got, err)
	}
	if got, err := c.m.tasks.Restore(c.m.ctx(), q); err != nil || got.State != "running" {
		t.Fatalf("cycle %d: restore: %v, %v", i, got, err)
	}
	if most := c.most.Load(); most > c.memory*5/2 {
		t.Fatalf("cycle %d: the store holds %d bytes, %.2f times the task's memory", i, most, float64(most)/float64(c.memory))
	}
}

func (c *cycle) end() {
	if most := c.most.Load(); most < c.memory {
		c.m.t.Errorf("the store never held more than %d bytes: it was not measured", most)
	}
	c.tell("end")
	c.m.awaitState(c.id, headrace.Done)
	c.await("right")
}

// tell replaces the file at once.
func (c *cycle) tell(text string) {
	if err := os.WriteFile(c.told+".new", []byte(text), 0o600); err != nil {
		c.m.t.Fatal(err)
	}
	if err := os.Rename(c.told+".new", c.told); err != nil {
		c.m.t.Fatal(err)
	}
}

// await waits for a line of output.
func (c *cycle) await(line string) {
	c.m.t.Helper()
	path := filepath.Join(c.m.cfg.StateDir, "tasks", string(c.id), "stdout")
	said := func() string { text, _ := os.ReadFile(path); return strings.TrimSpace(string(text)) }
	testkit.Await(c.m.t, "output of "+line, func() bool { return strings.HasSuffix(said(), line) }, said)
}
